// Package secret keeps credentials unreadable at rest: a ring of keys in a file, and
// authenticated encryption under its first key.
//
// Invariants:
//   - What is sealed names the key by its id, and opens only under the same Binding: a
//     ciphertext that is moved to another row, tenant or purpose does not open.
//   - The first key of the ring seals, every key opens. Rotation is a new key that is
//     added and then moved to the top; see Reseal's callers.
//   - No error and no log value shows a key or a secret. Text is how a secret travels.
//
// Failure model: a key that is not in the ring is ErrNoKey, which names its id; anything
// else that does not open (another key under that id, bytes that were changed, a moved
// ciphertext) is ErrDamaged. There is no fallback: callers refuse to go on.
package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// KeyID names a key of a ring, in rows and messages.
type KeyID string

// maxKeyID is the longest id, in bytes.
const maxKeyID = 64

// keySize is that of AES-256, in bytes.
const keySize = 32

var (
	// ErrNoKey says that the ring does not have the key that sealed something.
	ErrNoKey = errors.New("secret: the key is not in the ring")
	// ErrDamaged says that something does not open although its key is there.
	ErrDamaged = errors.New("secret: cannot be decrypted")
)

// Binding is what a ciphertext belongs to. It is authenticated, not stored.
type Binding struct {
	Tenant    int64
	Warehouse int64
	Purpose   string // such as "storage credentials"
}

// data is the associated data: unambiguous, because the numbers have a fixed length.
func (b Binding) data(id KeyID) []byte {
	out := []byte("lethe secret 1\x00")
	out = binary.BigEndian.AppendUint64(out, uint64(b.Tenant))
	out = binary.BigEndian.AppendUint64(out, uint64(b.Warehouse))
	out = append(out, id...)
	return append(append(out, 0), b.Purpose...)
}

type key struct {
	id   KeyID
	aead cipher.AEAD // with a random nonce in front of each ciphertext
}

// Ring is a list of keys. It is immutable and safe for concurrent use.
type Ring struct{ keys []key }

// Parse reads a ring: ID:BASE64 entries of 32 bytes each, one a line or separated by
// commas, the one that seals first. Lines that begin with # are comments.
func Parse(text string) (*Ring, error) {
	r := &Ring{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		for entry := range strings.SplitSeq(line, ",") {
			if entry = strings.TrimSpace(entry); entry == "" {
				continue
			}
			if err := r.add(entry); err != nil {
				return nil, fmt.Errorf("secret: key %d: %w", len(r.keys)+1, err)
			}
		}
	}
	if len(r.keys) == 0 {
		return nil, errors.New("secret: there is no key")
	}
	return r, nil
}

// add takes an entry, which no message may show: an id is shown only when it is one.
func (r *Ring) add(entry string) error {
	name, encoded, ok := strings.Cut(entry, ":")
	if !ok {
		return errors.New("is not written ID:BASE64")
	}
	id := KeyID(strings.TrimSpace(name))
	if !id.valid() {
		return fmt.Errorf("its id is not 1 to %d letters, digits, dots, dashes and underscores", maxKeyID)
	}
	if r.Has(id) {
		return fmt.Errorf("the id %s stands twice", id)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil || len(raw) != keySize {
		return fmt.Errorf("%s is not %d bytes in base64", id, keySize)
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return err
	}
	r.keys = append(r.keys, key{id, aead})
	return nil
}

func (id KeyID) valid() bool {
	return id != "" && len(id) <= maxKeyID && strings.IndexFunc(string(id), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_'
	}) < 0
}

// NewKey returns a new key as Parse reads it, without a line end.
func NewKey() string {
	var raw [keySize]byte
	var id [4]byte
	_, _ = rand.Read(raw[:]) // never fails
	_, _ = rand.Read(id[:])
	return "k-" + hex.EncodeToString(id[:]) + ":" + base64.StdEncoding.EncodeToString(raw[:])
}

// Current returns the id of the key that seals.
func (r *Ring) Current() KeyID { return r.keys[0].id }

// Has reports whether the ring has a key.
func (r *Ring) Has(id KeyID) bool {
	_, ok := r.find(id)
	return ok
}

func (r *Ring) find(id KeyID) (key, bool) {
	for _, k := range r.keys {
		if k.id == id {
			return k, true
		}
	}
	return key{}, false
}

// Seal encrypts under the first key, with a random nonce.
func (r *Ring) Seal(plain []byte, b Binding) (KeyID, []byte) {
	k := r.keys[0]
	return k.id, k.aead.Seal(nil, nil, plain, b.data(k.id))
}

// Open decrypts what Seal returned for the same binding.
func (r *Ring) Open(id KeyID, sealed []byte, b Binding) ([]byte, error) {
	k, ok := r.find(id)
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrNoKey, shown(id))
	}
	plain, err := k.aead.Open(nil, nil, sealed, b.data(id))
	if err != nil {
		return nil, fmt.Errorf("%w with key %s: it is another key, or the ciphertext was changed or moved", ErrDamaged, id)
	}
	return plain, nil
}

// shown is an id from a row, for messages.
func shown(id KeyID) string {
	if id.valid() {
		return string(id)
	}
	return fmt.Sprintf("%q", string(id))
}
