package simulated_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/models"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/simulated"
)

// modelPart is physical memory: one value per granule identifies it.
type modelPart struct {
	values []byte
	held   bool
	places int
}

// modelSlot is one granule of the model's only reservation.
type modelSlot struct {
	part   *modelPart // nil: not mapped
	index  int        // which granule of it
	access bool
}

func modelCharge(parts map[gpu.Handle]*modelPart) (granules int) {
	for _, p := range parts {
		if p.held || p.places > 0 {
			granules += len(p.values)
		}
	}
	return granules
}

// TestVirtualMemoryAgreesWithAPlainModel makes random calls, valid and invalid, on a machine and on an array of slots.
func TestVirtualMemoryAgreesWithAPlainModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const slots, total = 12, 10
		spec := attempt.Get(models.ParseSpec("T4:20MiB"))
		m := attempt.Get(simulated.New(spec, simulated.Options{}))
		defer func() { require.NoError(t, m.Close()) }()
		require.NoError(t, m.ContextRetain(0))
		base := attempt.Get(m.MemAddressReserve(slots*granule, 0))
		parts := map[gpu.Handle]*modelPart{}
		var handles []gpu.Handle
		var space [slots + 4]modelSlot // the last ones are outside
		addr := func(slot int) uint64 { return base + uint64(slot)*granule }

		drawRange := func(t *rapid.T) (slot, count int) {
			return rapid.IntRange(0, slots-1).Draw(t, "slot"), rapid.IntRange(0, 4).Draw(t, "count")
		}
		// whole reports whether a range consists of whole mappings.
		whole := func(slot, count int) bool {
			for i := slot; i < slot+count; i++ {
				if space[i].part == nil || i == slot && space[i].index != 0 ||
					i == slot+count-1 && space[i].index != len(space[i].part.values)-1 {
					return false
				}
			}
			return count > 0
		}
		drawHandle := func(t *rapid.T) gpu.Handle {
			if len(handles) == 0 {
				return 77
			}
			return rapid.SampledFrom(handles).Draw(t, "handle")
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				count := rapid.IntRange(0, 4).Draw(t, "granules")
				handle, err := m.MemCreate(0, uint64(count)*granule)
				switch {
				case count == 0:
					require.ErrorIs(t, err, gpu.ErrorInvalidValue)
				case modelCharge(parts)+count > total:
					require.ErrorIs(t, err, gpu.ErrorOutOfMemory)
				default:
					require.NoError(t, err)
					parts[handle] = &modelPart{values: make([]byte, count), held: true}
					handles = append(handles, handle)
				}
			},
			"release": func(t *rapid.T) {
				handle := drawHandle(t)
				p := parts[handle]
				err := m.MemRelease(handle)
				if p == nil || !p.held {
					require.ErrorIs(t, err, gpu.ErrorInvalidValue)
					return
				}
				require.NoError(t, err)
				p.held = false
			},
			"map": func(t *rapid.T) {
				handle, slot := drawHandle(t), rapid.IntRange(0, slots-1).Draw(t, "slot")
				p := parts[handle]
				count := rapid.IntRange(0, 1).Draw(t, "more")
				if p != nil {
					count += len(p.values)
				}
				free := slot+count <= slots
				for i := slot; i < slot+count; i++ {
					free = free && space[i].part == nil
				}
				err := m.MemMap(addr(slot), uint64(count)*granule, handle)
				if p != nil && p.held && count != len(p.values) {
					require.ErrorIs(t, err, gpu.ErrorNotSupported)
					return
				}
				if p == nil || !p.held || !free {
					require.ErrorIs(t, err, gpu.ErrorInvalidValue)
					return
				}
				require.NoError(t, err)
				p.places++
				for i := range count {
					space[slot+i] = modelSlot{part: p, index: i}
				}
			},
			"unmap": func(t *rapid.T) {
				slot, count := drawRange(t)
				err := m.MemUnmap(addr(slot), uint64(count)*granule)
				if !whole(slot, count) {
					require.ErrorIs(t, err, gpu.ErrorInvalidValue)
					return
				}
				require.NoError(t, err)
				for i := slot; i < slot+count; i++ {
					if space[i].index == 0 {
						space[i].part.places--
					}
					space[i] = modelSlot{}
				}
			},
			"access": func(t *rapid.T) {
				slot, count := drawRange(t)
				err := m.MemSetAccess(0, addr(slot), uint64(count)*granule)
				if !whole(slot, count) {
					require.ErrorIs(t, err, gpu.ErrorInvalidValue)
					return
				}
				require.NoError(t, err)
				for i := slot; i < slot+count; i++ {
					space[i].access = true
				}
			},
			"write": func(t *rapid.T) {
				slot, count := drawRange(t)
				value, open := rapid.Byte().Draw(t, "value"), true
				for i := slot; i < slot+count; i++ {
					open = open && space[i].access
				}
				err := m.MemsetD8(0, addr(slot), value, uint64(count)*granule)
				if !open {
					require.ErrorIs(t, err, gpu.ErrorInvalidValue)
					return
				}
				require.NoError(t, err)
				for i := slot; i < slot+count; i++ {
					space[i].part.values[space[i].index] = value
				}
			},
			"": func(t *rapid.T) {
				free, _, err := m.MemGetInfo(0)
				require.NoError(t, err)
				require.Equal(t, uint64(total-modelCharge(parts))*granule, free)
				for i, s := range space[:slots] {
					if !s.access {
						continue
					}
					memory, want := view(addr(i), granule), s.part.values[s.index]
					require.Equal(t, [3]byte{want, want, want}, [3]byte{memory[0], memory[mib], memory[granule-1]})
				}
			},
		})
	})
}
