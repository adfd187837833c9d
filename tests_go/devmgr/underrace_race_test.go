//go:build race

package devmgr_test

const underRace = true // and everything takes ten times as long
