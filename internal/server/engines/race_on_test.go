//go:build race

package engines

// raceDetector is true under the race detector, which changes what is allocated and how much memory
// things take.
const raceDetector = true
