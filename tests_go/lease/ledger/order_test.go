package ledger_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/lease/ledger"
	"gpuconf/tests_go/must"
)

// A model of requests: what the tests know of the claims that they made.
type asked struct {
	claim   *ledger.Claim
	request ledger.Request
	granted bool
}

func (a asked) class() string { return fmt.Sprint(a.request.Cards, a.request.Count) }

type model struct {
	t       *rapid.T
	ledger  *ledger.Ledger
	claims  []*asked // by age
	longest int
}

// leased sums what is leased of each card.
func (m *model) leased() map[string]uint64 {
	sums := map[string]uint64{}
	for _, a := range m.claims {
		for _, c := range a.claim.Cards() {
			sums[c.UUID] += c.Bytes
		}
	}
	return sums
}

// missing returns what is missing to a request on its best cards, in ascending order; 0: it has room.
func (m *model) missing(a *asked) []int64 {
	leased := m.leased()
	var short []int64
	for _, c := range a.request.Cards {
		short = append(short, max(0, int64(leased[c.UUID]+c.Bytes)-int64(c.Budget)))
	}
	slices.Sort(short)
	return short[:a.request.Count]
}

// settle lets all waiting claims look again, in a random order, until none is granted.
func (m *model) settle() {
	for again := true; again; {
		again = false
		for _, i := range rapid.Permutation(indices(len(m.claims))).Draw(m.t, "order") {
			if a := m.claims[i]; !a.granted {
				a.granted = must.OK(look(a.claim))(m.t)
				again = again || a.granted
			}
		}
	}
	m.check()
}

func indices(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

func (m *model) check() {
	require.Empty(m.t, m.ledger.Check())
	for uuid, sum := range m.leased() {
		require.LessOrEqual(m.t, sum, uint64(40*gib), uuid)
	}
	waiting := map[string]bool{}
	first := true
	for _, a := range m.claims {
		if !a.granted {
			if first {
				missing := m.missing(a)
				require.Positive(m.t, missing[len(missing)-1], "the oldest request fits and waits")
			}
			first = false
			waiting[a.class()] = true
		} else {
			require.False(m.t, waiting[a.class()], "a request passed an older one of its class")
		}
	}
}

// oldest returns the oldest waiting request.
func (m *model) oldest() *asked {
	for _, a := range m.claims {
		if !a.granted {
			return a
		}
	}
	return nil
}

func (m *model) enter() {
	var r ledger.Request
	for _, uuid := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"A", "B", "C"}), 1, 3,
		rapid.ID[string]).Draw(m.t, "cards") {
		r.Cards = append(r.Cards, card(uuid, uint64(rapid.SampledFrom([]int{5, 10, 20, 40}).Draw(m.t, "GiB"))*gib))
	}
	r.Count = rapid.IntRange(1, len(r.Cards)).Draw(m.t, "count")
	r.Policy = rapid.SampledFrom([]ledger.Policy{ledger.Spread, ledger.Pack}).Draw(m.t, "policy")
	before := m.oldest()
	var short []int64
	if before != nil {
		short = m.missing(before)
	}
	c := must.OK(m.ledger.Claim(ledger.Request{Cards: slices.Clone(r.Cards), Count: r.Count, Policy: r.Policy}))(m.t)
	m.claims = append(m.claims, &asked{c, r, len(c.Cards()) > 0})
	m.settle()
	if before != nil {
		require.LessOrEqual(m.t, slices.CompareFunc(m.missing(before), short, cmp.Compare[int64]), 0,
			"a younger request took what the oldest waits for")
	}
}

func (m *model) end(i int) {
	m.claims[i].claim.Release()
	m.claims = slices.Delete(m.claims, i, i+1)
	m.settle()
}

// Random requests against what must hold of every order: no overcommit, no idle memory that the oldest request could
// have, classes in order, and nothing taken from the oldest request.
func TestRandomRequestsKeepTheOrder(t *testing.T) {
	folder := t.TempDir()
	rounds := 0
	rapid.Check(t, func(t *rapid.T) {
		rounds++
		l := must.OK(ledger.Open(fmt.Sprintf("%s/%d", folder, rounds), true))(t)
		m := &model{t: t, ledger: l}
		defer func() {
			for _, a := range m.claims {
				a.claim.Release()
			}
			require.NoError(t, l.Close())
			require.NoError(t, os.RemoveAll(l.Folder()))
		}()
		for range rapid.IntRange(5, 25).Draw(t, "steps") {
			if len(m.claims) == 0 || rapid.IntRange(0, 2).Draw(t, "step") > 0 {
				m.enter()
			} else {
				m.end(rapid.IntRange(0, len(m.claims)-1).Draw(t, "which"))
			}
		}
		// No starvation: when holders go, every request is granted, however many younger ones keep coming.
		for m.oldest() != nil {
			before := m.oldest()
			for i, a := range m.claims {
				if a.granted {
					m.end(i)
					break
				}
			}
			if m.oldest() == before && rapid.Bool().Draw(t, "another") && m.longest < 50 {
				m.longest++
				m.enter()
			}
		}
	})
}
