//go:build !race

package devmgr_test

const underRace = false
