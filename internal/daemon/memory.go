package daemon

const (
	// MinBufferMemory is the least that Config.MaxBufferMemory may be: the longest command of one connection must fit, with its answer.
	MinBufferMemory = 4 << 20
	maxBufferMemory = 1 << 40

	bufferMemory      = 256 << 20 // where nothing limits the memory of this process
	bufferMemoryShare = 4         // the part of the control group's limit that is for buffers: Go's heap may grow to twice of what is in use
)

// DefaultBufferMemory is a quarter of what this process's control group allows it, in whole MiB, or 256 MiB where there is no limit.
func DefaultBufferMemory() int64 { return bufferMemoryOf(memoryLimit("/")) }

func bufferMemoryOf(limit int64) int64 {
	if limit <= 0 {
		return bufferMemory
	}
	return min(max(limit/bufferMemoryShare>>20<<20, MinBufferMemory), maxBufferMemory)
}
