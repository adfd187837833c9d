package plan

const mib = 1 << 20

// search finds the least limit in MiB that a job fits under. Its caller tries the limit that next returns and reports
// the outcome to record.
type search struct {
	fails uint64 // MiB: known to be too little
	fits  uint64 // MiB: known to be enough; 0: no such limit is known
	step  uint64
	first uint64 // MiB: what to try first; 0: nothing
}

// newSearch begins right above the limits that cannot suffice: those below the peak of live bytes.
func newSearch(peakLiveBytes uint64) *search {
	if peakLiveBytes == 0 {
		return &search{fits: 1}
	}
	return &search{fails: (peakLiveBytes - 1) / mib, step: 1}
}

// newChallenge looks for a limit below one that is known to be enough otherwise. If there is none, it ends with that one.
func newChallenge(peakLiveBytes, bestBytes uint64) *search {
	s := newSearch(peakLiveBytes)
	s.fits = bestBytes / mib
	s.first = s.fits - 1
	return s
}

// bound records that a limit is enough, because a replay without a limit reserved no more.
func (s *search) bound(reservedBytes uint64) { s.fits = max((reservedBytes+mib-1)/mib, s.fails+1) }

// next returns the limit to try next or, if done, the least limit.
func (s *search) next() (limitMiB uint64, done bool) {
	switch {
	case s.first > s.fails && s.first < s.fits:
		return s.first, false
	case s.fits == 0:
		return s.fails + s.step, false
	case s.fits-s.fails > 1:
		return s.fails + (s.fits-s.fails)/2, false
	}
	return s.fits, true
}

func (s *search) record(limitMiB uint64, fits bool) {
	if fits {
		s.fits = limitMiB
		return
	}
	s.fails = limitMiB
	s.step *= 2
}
