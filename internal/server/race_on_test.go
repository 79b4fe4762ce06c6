//go:build race

package server

// raceDetector: it changes what is allocated, and how much memory things take.
const raceDetector = true
