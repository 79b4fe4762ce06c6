package front

const (
	// MinBufferMemory is the minimum of Config.MaxBufferMemory: the longest command of one
	// connection must fit, with its answer.
	MinBufferMemory = 4 << 20
	maxBufferMemory = 1 << 40

	bufferMemory = 256 << 20 // if nothing limits the memory of this process
	// One part in 8 of the control group's limit is for buffers; docs/OPERATING.md lists the rest.
	bufferMemoryShare = 8
)

// DefaultBufferMemory returns an eighth of what this process's control group allows it, in whole
// MiB, or 256 MiB if there is no limit.
func DefaultBufferMemory() int64 { return bufferMemoryOf(memoryLimit("/")) }

func bufferMemoryOf(limit int64) int64 {
	if limit <= 0 {
		return bufferMemory
	}
	return min(max(limit/bufferMemoryShare>>20<<20, MinBufferMemory), maxBufferMemory)
}
