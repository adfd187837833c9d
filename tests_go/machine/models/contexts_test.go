// SPDX-License-Identifier: Apache-2.0

package models_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/models"
)

// The allowance covers each figure of the table in models.h, on the card that it is from.
func TestAContextHasTheRoomThatPublicFiguresShow(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
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
		reserved := models.ContextBytes(row.memory, row.major)
		require.GreaterOrEqual(t, reserved, row.measured*mib, row.card)
		require.LessOrEqual(t, reserved, row.memory/8, row.card)
	}
}

func TestAContextTakesAtMostAnEighthOfASmallCard(t *testing.T) {
	const gib = 1 << 30
	require.EqualValues(t, gib/8, models.ContextBytes(gib, 9))
	require.Zero(t, models.ContextBytes(0, 9))
}
