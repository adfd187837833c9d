// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/config"
)

// The allowance covers each figure in the comment of ContextBytes, on the card that it is from.
func TestAContextHasTheRoomThatPublicFiguresShow(t *testing.T) {
	const mib = 1 << 20
	for _, row := range []struct {
		card     string
		memory   uint64
		major    int
		measured uint64
	}{
		{"Tesla K80", 12 * gib, 3, 306},
		{"Titan V", 12 * gib, 7, 320},
		{"RTX 3090", 24 * gib, 8, 256},
		{"RTX 6000 Ada", 48 * gib, 8, 426},
		{"RTX 4060 Ti", 8 * gib, 8, 107},
		{"RTX PRO 6000", 96 * gib, 12, 555},
	} {
		reserved := config.ContextBytes(row.memory, row.major)
		require.GreaterOrEqual(t, reserved, row.measured*mib, row.card)
		require.LessOrEqual(t, reserved, row.memory/8, row.card)
	}
}

func TestAContextTakesAtMostAnEighthOfASmallCard(t *testing.T) {
	require.EqualValues(t, gib/8, config.ContextBytes(gib, 9))
	require.Zero(t, config.ContextBytes(0, 9))
}
