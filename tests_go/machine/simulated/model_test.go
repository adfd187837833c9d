package simulated_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/models"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/simulated"
)

// modelGPU is a GPU as a user sees it, written as simply as possible: bytes by address.
type modelGPU struct {
	retains int
	live    map[uint64][]byte
	managed map[uint64]bool // which of live are managed
}

// charged returns the device memory, and the managed memory.
func (g *modelGPU) charged() (plain, managed uint64) {
	for addr, data := range g.live {
		bytes := (uint64(len(data)) + 255) / 256 * 256
		if g.managed[addr] {
			managed += bytes
		} else {
			plain += bytes
		}
	}
	return plain, managed
}

func newModelGPU() *modelGPU { return &modelGPU{live: map[uint64][]byte{}, managed: map[uint64]bool{}} }

// TestMachineAgreesWithAPlainModel makes random calls, valid and invalid, on a machine and on the model.
func TestMachineAgreesWithAPlainModel(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	rapid.Check(t, func(t *rapid.T) {
		const total = 1 << 20
		spec := attempt.Get(models.ParseSpec("2xT4:1MiB"))
		m := attempt.Get(simulated.New(spec, simulated.Options{}))
		defer func() { require.NoError(t, m.Close()) }()
		model := []*modelGPU{newModelGPU(), newModelGPU()}

		// pick draws a device and, if it has any, one of its live addresses.
		pick := func(t *rapid.T) (ordinal int, g *modelGPU, addr uint64) {
			ordinal = rapid.IntRange(0, 1).Draw(t, "ordinal")
			g = model[ordinal]
			addrs := slices.Sorted(maps.Keys(g.live)) // sorted, so that a failure replays
			if len(addrs) == 0 {
				return ordinal, g, 0
			}
			return ordinal, g, rapid.SampledFrom(addrs).Draw(t, "address")
		}
		t.Repeat(map[string]func(*rapid.T){
			"retain": func(t *rapid.T) {
				ordinal, g, _ := pick(t)
				require.NoError(t, m.ContextRetain(ordinal))
				g.retains++
			},
			"release": func(t *rapid.T) {
				ordinal, g, _ := pick(t)
				err := m.ContextRelease(ordinal)
				if g.retains == 0 {
					require.ErrorIs(t, err, gpu.ErrorInvalidContext)
					return
				}
				require.NoError(t, err)
				if g.retains--; g.retains == 0 {
					clear(g.live)
					clear(g.managed)
				}
			},
			"alloc": func(t *rapid.T) {
				ordinal, g, _ := pick(t)
				size := rapid.Uint64Range(0, total/3).Draw(t, "bytes")
				addr, err := m.MemAlloc(ordinal, size)
				charged, _ := g.charged()
				switch {
				case g.retains == 0:
					require.ErrorIs(t, err, gpu.ErrorInvalidContext)
				case size == 0:
					require.ErrorIs(t, err, gpu.ErrorInvalidValue)
				case charged+(size+255)/256*256 > total:
					require.ErrorIs(t, err, gpu.ErrorOutOfMemory)
				default:
					require.NoError(t, err)
					value := rapid.Byte().Draw(t, "value")
					require.NoError(t, m.MemsetD8(ordinal, addr, value, size))
					g.live[addr] = bytes.Repeat([]byte{value}, int(size))
				}
			},
			"alloc managed": func(t *rapid.T) {
				ordinal, g, _ := pick(t)
				size := rapid.Uint64Range(0, total*3/2).Draw(t, "bytes")
				addr, err := m.MemAllocManaged(ordinal, size)
				switch {
				case g.retains == 0:
					require.ErrorIs(t, err, gpu.ErrorInvalidContext)
				case size == 0:
					require.ErrorIs(t, err, gpu.ErrorInvalidValue)
				default:
					require.NoError(t, err, "host memory stands behind it")
					value := rapid.Byte().Draw(t, "value")
					require.NoError(t, m.MemsetD8(ordinal, addr, value, size))
					g.live[addr], g.managed[addr] = bytes.Repeat([]byte{value}, int(size)), true
				}
			},
			"free": func(t *rapid.T) {
				ordinal, g, addr := pick(t)
				addr += rapid.Uint64Range(0, 1).Draw(t, "off by")
				err := m.MemFree(ordinal, addr)
				switch _, isLive := g.live[addr]; {
				case g.retains == 0:
					require.ErrorIs(t, err, gpu.ErrorInvalidContext)
				case !isLive:
					require.ErrorIs(t, err, gpu.ErrorInvalidValue)
				default:
					require.NoError(t, err)
					delete(g.live, addr)
					delete(g.managed, addr)
				}
			},
			"write": func(t *rapid.T) {
				ordinal, g, addr := pick(t)
				offset := rapid.IntRange(0, len(g.live[addr])+1).Draw(t, "offset")
				src := rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "data")
				err := m.MemcpyHtoD(ordinal, addr+uint64(offset), src)
				if after := addr + uint64(offset); g.live[after] != nil {
					// past a block of 255 bytes lies the next block
					addr, offset = after, 0
				}
				data := g.live[addr]
				switch {
				case g.retains == 0:
					require.ErrorIs(t, err, gpu.ErrorInvalidContext)
				case offset+len(src) > len(data):
					require.ErrorIs(t, err, gpu.ErrorInvalidValue)
				default:
					require.NoError(t, err)
					copy(data[offset:], src)
				}
			},
			"": func(t *rapid.T) {
				for ordinal, g := range model {
					if g.retains == 0 {
						continue
					}
					free, _, err := m.MemGetInfo(ordinal)
					require.NoError(t, err)
					plain, managed := g.charged()
					require.Equal(t, total-plain-min(managed, total-plain), free)
					for addr, want := range g.live {
						got := make([]byte, len(want))
						require.NoError(t, m.MemcpyDtoH(ordinal, got, addr))
						require.True(t, bytes.Equal(want, got), "the bytes at %#x changed", addr)
					}
				}
			},
		})
	})
}
