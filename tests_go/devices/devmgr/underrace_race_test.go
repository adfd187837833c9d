//go:build race

package devmgr_test

const underRace = true // everything takes ten times as long
