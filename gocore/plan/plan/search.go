// SPDX-License-Identifier: Apache-2.0

package plan

import "math"

const mib = 1 << 20

// search finds the least limit in MiB that a job fits under. Its caller tries the limit that next returns and reports
// the outcome to record.
type search struct {
	fails   uint64 // MiB: known to be too little
	fits    uint64 // MiB: known to be enough; 0: no such limit is known
	step    uint64
	first   uint64  // MiB: what to try first; 0: nothing
	early   float64 // how much of the job the last replay that failed did; 0: none has failed
	guess   uint64  // MiB: what the last replay says might be the least limit; 0: nothing
	guesses float64 // what following guesses has cost, in replays of the whole job
}

// mostGuesses bounds what the search spends on guesses: each makes the interval smaller, but maybe only by a little.
const mostGuesses = 5

// newSearch begins right above the limits that cannot suffice: those below the peak of live bytes.
func newSearch(peakLiveBytes uint64) *search {
	return &search{fails: (max(peakLiveBytes, 1) - 1) / mib, step: 1}
}

// newChallenge looks for a limit below one that is known to be enough otherwise. If there is none, it ends with that
// one.
func newChallenge(peakLiveBytes, bestBytes uint64) *search {
	s := newSearch(peakLiveBytes)
	s.fits = bestBytes / mib
	s.first = s.fits - 1
	return s
}

// next returns the limit to try next or, if done, the least limit.
func (s *search) next() (limitMiB uint64, done bool) {
	switch {
	case s.first > s.fails && s.first < s.fits:
		return s.first, false
	case s.fits == s.fails+1:
		return s.fits, true
	case s.fits == 0 && s.guess > s.fails:
		return max(s.guess, s.fails+s.step), false
	case s.guess > s.fails && s.guess < s.fits && s.guesses < mostGuesses:
		return s.guess, false
	case s.fits == 0 || s.early == 0:
		return s.fails + s.step, false
	default:
		return s.fails + max(1, uint64(float64(s.fits-s.fails)*share(s.early))), false
	}
}

// share returns where in an interval to try next. A replay that fails costs only a part of one that fits, because it
// ends early: then the search tries low limits. With both equally expensive, this is the middle; else, in the worst
// case, the total cost is least if an interval shrinks to p at cost 1, or to 1-p at cost early, with p =
// (1-p)^(1/early).
func share(early float64) float64 {
	low, high := 0.0, 0.5
	for range 20 {
		if p := (low + high) / 2; p < math.Pow(1-p, 1/early) {
			low = p
		} else {
			high = p
		}
	}
	return high
}

// record takes the outcome of a replay that did a part of the job: all limits that the outcome holds for are known now.
func (s *search) record(o outcome, done float64) {
	s.guess = (o.guess + mib - 1) / mib
	if o.failure == nil {
		s.fits = max((o.low+mib-1)/mib, s.fails+1)
		if s.guess > 0 {
			s.guess = min(max(s.guess, s.fails+1), s.fits-1)
		}
		s.guesses += done
		return
	}
	s.fails = o.high / mib
	if s.fits > 0 {
		s.fails = min(s.fails, s.fits-1)
	}
	s.step *= 2 // also after a guess: each may be only a little larger than the last one
	s.early = max(done, 1e-3)
	s.guesses += done
}
