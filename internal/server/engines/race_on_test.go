//go:build race

package engines

// raceDetector: it changes what is allocated, and how much memory things take.
const raceDetector = true
