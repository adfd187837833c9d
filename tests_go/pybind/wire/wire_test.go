// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/pybind/wire"
	"gpuconf/tests_go/must"
)

func TestAMessageIsAListOfItsFields(t *testing.T) {
	total := uint64(1 << 63)
	text := must.OK(wire.Encode(wire.Survey{
		Driver: wire.Maybe("580.95", ""), CUDA: wire.Maybe([2]int{13, 0}, [2]int{}), HostPIDs: true,
		Cards: []wire.Card{{Index: 1, UUID: "GPU-1", Name: `a "card" <é>`, ComputeCapability: [2]int{9, 0}, MIG: "off",
			Memory:    wire.CardMemory{Kind: "dedicated", Total: &total},
			Processes: []wire.CardProcess{{PID: 7, Instance: wire.Maybe("MIG-1", "")}}}},
	}))(t)
	require.JSONEq(t, `[null, null, "580.95", [13, 0], true, [[1, "GPU-1", "a \"card\" <é>", "", [9, 0], "off",
		["dedicated", 9223372036854775808, null, null, null], [[7, null, "MIG-1"]], null, [], []]]]`, text)
}

func TestAListThatIsMissingIsEmpty(t *testing.T) {
	text := must.OK(wire.Encode([]wire.FleetBatch(nil)))(t)
	require.Equal(t, "[]", text)
	text = must.OK(wire.Encode(ledger.PoolFigures{Libraries: map[string]uint64{"torch": 5}}))(t)
	require.Equal(t, `["",0,0,0,0,0,{"torch":5}]`, text)
}

func TestAPartOfAnotherText(t *testing.T) {
	text := must.OK(json.Marshal(map[string]any{"pools": wire.List{Message: []wire.Region{{Address: 1, Bytes: 2}}}}))(t)
	require.Equal(t, `{"pools":[[1,2,[]]]}`, string(text))
}

func TestAMessageOfAnotherPackage(t *testing.T) {
	id, _ := ledger.ParseID("000102030405060708090a0b0c0d0e0f")
	text := must.OK(wire.Encode(wire.LedgerRows{Claims: []ledger.ClaimRow{{ID: id, UID: 1000, State: ledger.Granted,
		Local: true, Process: ledger.Process{PID: 7, Start: 8, Namespace: 9},
		Text:  ledger.Text{Name: "lease", Command: "a \x1f b"},
		Cards: []ledger.CardLease{{UUID: "GPU-1", Bytes: 4, Charge: 5}}, Count: 1, Seconds: 0.5}},
		Processes: []ledger.ProcessRow{{}}}))(t)
	require.JSONEq(t, `[[["000102030405060708090a0b0c0d0e0f", 7, 8, 1000, "lease", "", "a \u001f b", "granted", false,
		[["GPU-1", 4, 5]], 1, 0, 0, 0, 0.5, false, "", 0, 0, 0, 0, 0, false, [], true]],
		[[0, 0, 0, "", "", "", "", [], false, false]]]`, text)
}

func TestARequestIsRead(t *testing.T) {
	var request ledger.Request
	text := `[[["GPU-1", 4, 5, 7, 8], ["GPU-2", 4, 4, 8, 8]], 1, 1, "lease", "job", "python é", 3, 0]`
	require.NoError(t, wire.Decode(text, &request))
	require.Equal(t, ledger.Request{
		Cards: []ledger.Card{{UUID: "GPU-1", Bytes: 4, Charge: 5, Budget: 7, Total: 8},
			{UUID: "GPU-2", Bytes: 4, Charge: 4, Budget: 8, Total: 8}},
		Count: 1, Policy: ledger.Pack, Text: ledger.Text{Name: "lease", Job: "job", Command: "python é"},
		Later: ledger.Later{Contexts: 3},
	}, request)
}

func TestATextOfAnotherFormIsRefused(t *testing.T) {
	for _, text := range []string{
		``, `null`, `{}`, `[]`, `[[], 1, 0, "a", "b", "c"]`, `[[], 1, 0, "a", "b", "c", 0, 0, 0]`,
		`[[["GPU-1", 4, 5, 7]], 1, 0, "a", "b", "c", 0, 0]`, `[[], "1", 0, "a", "b", "c", 0, 0]`,
		`[[], 1, 300, "a", "b", "c", 0, 0]`, `[[["GPU-1", -4, 5, 7, 8]], 1, 0, "a", "b", "c", 0, 0]`,
		`[[], 1, 0, "a", "b", "c", 0, 0`,
	} {
		var request ledger.Request
		err := wire.Decode(text, &request)
		require.Equal(t, status.Internal, status.CodeOf(err), text)
	}
}
