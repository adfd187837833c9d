package devmgr_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/pool/figures"
	"gpuconf/tests_go/machine/simulated"
)

var errFull = errors.New("no slot is free")

// full is where no figures can be published.
type full struct{}

func (full) SetPools([]figures.Place) ([]*figures.Pool, error) { return nil, errFull }

func TestFiguresThatCannotBePublishedAreAnError(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil)
	require.ErrorIs(t, m.Publish(full{}), errFull)
	require.NoError(t, m.Publish(nil))
}
