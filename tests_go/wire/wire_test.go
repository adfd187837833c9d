// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/status"
	"gpuconf/pybind/wire"
)

func TestAMessageIsAListOfItsFields(t *testing.T) {
	total := uint64(1 << 63)
	text, err := wire.Encode(wire.Survey{
		Driver: wire.Maybe("580.95", ""), CUDA: wire.Maybe([2]int{13, 0}, [2]int{}), HostPIDs: true,
		Cards: []wire.Card{{Index: 1, UUID: "GPU-1", Name: `a "card" <é>`, ComputeCapability: [2]int{9, 0}, MIG: "off",
			Memory:    wire.CardMemory{Kind: "dedicated", Total: &total},
			Processes: []wire.CardProcess{{PID: 7, Instance: wire.Maybe("MIG-1", "")}}}},
	})
	require.NoError(t, err)
	require.JSONEq(t, `[null, null, "580.95", [13, 0], true, [[1, "GPU-1", "a \"card\" <é>", "", [9, 0], "off",
		["dedicated", 9223372036854775808, null, null, null], [[7, null, "MIG-1"]], null, [], []]]]`, text)
}

func TestAListThatIsMissingIsEmpty(t *testing.T) {
	text, err := wire.Encode([]wire.FleetBatch(nil))
	require.NoError(t, err)
	require.Equal(t, "[]", text)
	text, err = wire.Encode(wire.PoolFigures{Libraries: map[string]uint64{"torch": 5}})
	require.NoError(t, err)
	require.Equal(t, `["",0,0,0,0,0,{"torch":5}]`, text)
}

func TestAPartOfAnotherText(t *testing.T) {
	text, err := json.Marshal(map[string]any{"pools": wire.List{Message: []wire.Region{{Address: 1, Bytes: 2}}}})
	require.NoError(t, err)
	require.Equal(t, `{"pools":[[1,2,[]]]}`, string(text))
}

func TestARequestIsRead(t *testing.T) {
	var request wire.ClaimRequest
	text := `[[["GPU-1", 8, 4, 5, 1, 2], ["GPU-2", 8, 4, 4, 0, 0]], 1, true, 3, "lease", "job", "python é"]`
	require.NoError(t, wire.Decode(text, &request))
	require.Equal(t, wire.ClaimRequest{
		Cards: []wire.CardRequest{{UUID: "GPU-1", Capacity: 8, Bytes: 4, Charge: 5, Reserve: 1, Foreign: 2},
			{UUID: "GPU-2", Capacity: 8, Bytes: 4, Charge: 4}},
		Count: 1, Pack: true, Contexts: 3, Name: "lease", Job: "job", Command: "python é",
	}, request)
}

func TestATextOfAnotherFormIsRefused(t *testing.T) {
	for _, text := range []string{
		``, `null`, `{}`, `[]`, `[[], 1, true, 3, "a", "b"]`, `[[], 1, true, 3, "a", "b", "c", "d"]`,
		`[[["GPU-1", 8, 4, 5, 1]], 1, true, 3, "a", "b", "c"]`, `[[], "1", true, 3, "a", "b", "c"]`,
		`[[["GPU-1", -8, 4, 5, 1, 2]], 1, true, 3, "a", "b", "c"]`, `[[], 1, true, 3, "a", "b", "c"`,
	} {
		var request wire.ClaimRequest
		err := wire.Decode(text, &request)
		require.Equal(t, status.Internal, status.CodeOf(err), text)
	}
}
