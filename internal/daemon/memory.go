package daemon

const (
	// MinBufferMemory is the least that Config.MaxBufferMemory may be: the longest command of one connection must fit, with its answer.
	MinBufferMemory = 4 << 20
	maxBufferMemory = 1 << 40

	bufferMemory      = 256 << 20 // where nothing limits the memory of this process
	bufferMemoryShare = 8         // the part of the control group's limit that is for buffers; see docs/OPERATING.md on what else there is
)

// DefaultBufferMemory is an eighth of what this process's control group allows it, in whole MiB, or 256 MiB where there is no limit.
func DefaultBufferMemory() int64 { return bufferMemoryOf(memoryLimit("/")) }

func bufferMemoryOf(limit int64) int64 {
	if limit <= 0 {
		return bufferMemory
	}
	return min(max(limit/bufferMemoryShare>>20<<20, MinBufferMemory), maxBufferMemory)
}
