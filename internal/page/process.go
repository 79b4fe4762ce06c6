package page

import (
	"fmt"
	"strconv"
	"time"
)

// A Process is what the daemon takes of its host. Zeros are not known on this system.
type Process struct {
	CPU        time.Duration // since the start
	Processors int           // that it may use
	Memory     int64         // resident, in bytes
	Files      int           // descriptors that are open
	MostFiles  uint64        // that may be
}

// fullFiles is the share of the descriptors that may be open before it is said.
const fullFiles = 0.9

// busy is how many processors were busy with the daemon in the last minute. ok = false: not known yet.
func (d *document) busy() (share float64, ok bool) {
	since := before(d.samples, d.At, time.Minute)
	if since == nil || d.At.Sub(since.At) <= 0 {
		return 0, false
	}
	return (d.Sample.Process.CPU - since.Process.CPU).Seconds() / d.At.Sub(since.At).Seconds(), true
}

// processFacts say what the process takes.
func (d *document) processFacts() (list []fact) {
	p := d.Sample.Process
	if p.CPU > 0 {
		text := span(p.CPU.Round(time.Millisecond)) + " since the start"
		if share, ok := d.busy(); ok {
			text = fmt.Sprintf("%.0f %% of one of %d in the last minute, ", 100*share, p.Processors) + text
		}
		list = append(list, fact{"processor", text})
	}
	if p.Memory > 0 {
		list = append(list, fact{"memory", size(p.Memory) + " resident"})
	}
	if p.MostFiles > 0 {
		list = append(list, fact{"descriptors", strconv.Itoa(p.Files) + " of " + number(p.MostFiles)})
	}
	return list
}

func descriptors(s *situation, add func(Finding)) {
	if p := s.Sample.Process; p.MostFiles > 0 && float64(p.Files) >= fullFiles*float64(p.MostFiles) {
		add(Finding{Level: Soon, What: signed(int64(p.Files)) + " of " + number(p.MostFiles) + " descriptors are open.",
			Means:   "Without one, no connection is accepted, and no file is written anew.",
			Do:      "Raise the limit of open files, or lower -max-connections.",
			Command: "ls -l /proc/$(pidof katsubushi)/fd | tail"})
	}
}
