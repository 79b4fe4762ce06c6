package users

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/crypto/argon2"
)

// A secret is what a user proves to know.
type secret interface {
	kind() string // see User.Kind
	text() string // as it stands in a line
}

// plain is a password as it is.
type plain string

func (plain) kind() string   { return "plain password" }
func (p plain) text() string { return string(p) }

// A token is the SHA-256 of 256 random bits in base64, behind tokenPrefix. These cannot be guessed, so
// the hash need not be slow.
type token [sha256.Size]byte

const (
	tokenMark   = "$token-sha256$" // before the hash in a line
	tokenPrefix = "kts_"           // so that scanners for leaked secrets can find tokens
)

func newToken() (text string, t token) {
	var b [32]byte
	rand.Read(b[:])
	text = tokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
	return text, sha256.Sum256([]byte(text))
}

func (token) kind() string   { return "token" }
func (t token) text() string { return tokenMark + hex.EncodeToString(t[:]) }

func (t token) is(password []byte) bool {
	sum := sha256.Sum256(password)
	return subtle.ConstantTimeCompare(t[:], sum[:]) == 1
}

func parseToken(text string) (t token, err error) {
	b, err := hex.DecodeString(strings.TrimPrefix(text, tokenMark))
	if err != nil || len(b) != len(t) {
		return t, fmt.Errorf("a token is %s and 64 hexadecimal digits", tokenMark)
	}
	return token(b), nil
}

// A hash is an argon2id hash of a password.
type hash struct {
	memory uint32 // KiB
	time   uint32 // passes
	lanes  uint8
	salt   []byte
	sum    []byte
}

// The cost of new hashes, and the limits of others. The floor lets pass what OWASP recommends, from 46
// MiB in one pass to 7 MiB in five.
const (
	hashMemory, hashTime, hashLanes = 19456, 2, 1

	minMemory, minWork = 7168, 35840 // KiB; KiB times passes
	maxMemory, maxWork = 1 << 20, 4 << 20
	maxLanes           = 16
)

func newHash(password []byte) *hash {
	h := &hash{memory: hashMemory, time: hashTime, lanes: hashLanes, salt: make([]byte, 16), sum: make([]byte, 32)}
	rand.Read(h.salt)
	h.sum = h.of(password)
	return h
}

func (h *hash) of(password []byte) []byte {
	return argon2.IDKey(password, h.salt, h.time, h.memory, h.lanes, uint32(len(h.sum)))
}

func (h *hash) is(password []byte) bool {
	return subtle.ConstantTimeCompare(h.of(password), h.sum) == 1
}

// work is what it costs to compare a password, as far as it can be compared.
func (h *hash) work() uint64 { return uint64(h.memory) * uint64(h.time) }

func (*hash) kind() string { return "password" }

// hashMark begins every argon2id hash.
const hashMark = "$argon2id$"

func (h *hash) text() string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("%sv=%d$m=%d,t=%d,p=%d$%s$%s", hashMark, argon2.Version, h.memory, h.time, h.lanes,
		b64.EncodeToString(h.salt), b64.EncodeToString(h.sum))
}

// hashForm is the form of an argon2id hash: the PHC string format.
var hashForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^\$argon2id\$v=(\d{1,9})\$m=(\d{1,9}),t=(\d{1,9}),p=(\d{1,9})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$`)
})

// parseHash parses the text of a hash. Its errors do not quote it.
func parseHash(text string) (*hash, error) {
	m := hashForm().FindStringSubmatch(text)
	if m == nil {
		return nil, errors.New("an argon2id hash is $argon2id$v=19$m=KiB,t=PASSES,p=LANES$SALT$HASH, in base64 without " +
			"padding")
	}
	var n [4]uint64
	for i := range n {
		n[i], _ = strconv.ParseUint(m[i+1], 10, 32)
	}
	version, memory, time, lanes := n[0], n[1], n[2], n[3]
	salt, err1 := base64.RawStdEncoding.Strict().DecodeString(m[5])
	sum, err2 := base64.RawStdEncoding.Strict().DecodeString(m[6])
	switch {
	case version != argon2.Version:
		return nil, fmt.Errorf("an argon2id hash of version %d: %d allowed", version, argon2.Version)
	case err1 != nil || err2 != nil:
		return nil, errors.New("an argon2id hash whose salt or hash is not base64")
	case len(salt) < 8 || len(salt) > 64 || len(sum) < 16 || len(sum) > 64:
		return nil, fmt.Errorf("an argon2id hash of %d bytes with a salt of %d: 16 to 64 and 8 to 64 allowed", len(sum),
			len(salt))
	case memory > maxMemory || memory*time > maxWork:
		return nil, fmt.Errorf("an argon2id hash with m=%d,t=%d: more than m=%d (1 GiB), or than m times t of %d, would "+
			"stop the daemon", memory, time, maxMemory, maxWork)
	case memory < minMemory || memory*time < minWork:
		return nil, fmt.Errorf("an argon2id hash with m=%d,t=%d is too cheap to guess: m of %d and m times t of %d are "+
			"the least", memory, time, minMemory, minWork)
	case lanes < 1 || lanes > maxLanes:
		return nil, fmt.Errorf("an argon2id hash with p=%d: 1 to %d allowed", lanes, maxLanes)
	}
	return &hash{uint32(memory), uint32(time), uint8(lanes), salt, sum}, nil
}

// foreignHash matches the hashes of other programs. A plain password that looks like one is not one.
var foreignHash = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(` +
		`\$(1|2[abxy]?|5|6|7|8|y|gy|sha1|md5|apr1|argon2d|argon2i|scrypt|s0|pbkdf2[a-z0-9-]*|bcrypt[a-z0-9-]*|` +
		`sha256|sha512)[$,]|` +
		`\{(SHA|SSHA|SHA256|SHA512|SSHA256|SSHA512|MD5|SMD5|CRYPT|ARGON2)\})`)
})
