package id

import "strings"

// Slots is how many slots Redis Cluster divides names into.
const Slots = 16384

// Slot returns the slot of a name, 0 to Slots-1: that of the part between the first { and the next },
// if that is not empty, as Redis Cluster has it.
func Slot[Text ~string | ~[]byte](name Text) int {
	text := string(name)
	if _, after, ok := strings.Cut(text, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			text = tag
		}
	}
	return int(crc16(text)) % Slots
}

// crc16 is the one of XMODEM.
func crc16(text string) (sum uint16) {
	for i := range len(text) {
		sum ^= uint16(text[i]) << 8
		for range 8 {
			carry := sum >> 15
			sum = sum<<1 ^ carry*0x1021
		}
	}
	return sum
}
