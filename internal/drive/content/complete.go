package content

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
)

// CompleteOptions say what the caller knows of the whole.
type CompleteOptions struct {
	Parts        []int  // the numbers in order that make the content; nil: all that arrived
	ExpectSHA256 string // hexadecimal; empty: not known
}

// Complete puts the parts together. The upload ends with Commit of what is returned, in
// the caller's transaction; until then it may be completed again.
//
// A store's own multipart upload is completed and then read back once: that proves each
// part, and gives the checksum of the whole, which parts in any order do not. Otherwise
// the parts are streamed into a new object. Either way it takes the time of reading all.
func (s *Store) Complete(ctx context.Context, fs int64, id string, opts CompleteOptions) (Pending, Upload, error) {
	u, err := s.Upload(ctx, s.db, fs, id)
	if err == nil {
		err = u.Ended()
	}
	if err != nil {
		return Pending{}, Upload{}, err
	}
	all, err := s.Parts(ctx, s.db, fs, id)
	if err != nil {
		return Pending{}, Upload{}, err
	}
	parts, size, err := choose(all, opts.Parts)
	if err != nil {
		return Pending{}, Upload{}, err
	}
	if u.Size > 0 && size != u.Size {
		return Pending{}, Upload{}, fault.New("content.Complete", fault.Invalid, CodeSize,
			"the parts have %d bytes, %d were declared", size, u.Size)
	}
	var p Pending
	if u.key != "" {
		p, err = s.completeAtStore(ctx, u, parts, size, opts.ExpectSHA256)
	} else {
		joined := &joined{ctx: ctx, bucket: s.bucket, parts: parts}
		p, err = s.Write(ctx, fs, joined, WriteOptions{ExpectSHA256: opts.ExpectSHA256, ExpectSize: &size})
		err = errors.Join(err, joined.Close())
	}
	if err != nil {
		// Whatever failed: where a twin was faster, what was asked for is done.
		if now, lookErr := s.Upload(ctx, s.db, fs, id); lookErr == nil && now.State == Completed {
			err = now.Ended()
		}
		return Pending{}, Upload{}, err
	}
	p.upload, p.Reserved = id, u.Size
	return p, u, nil
}

// choose returns the wanted parts and their size in bytes.
func choose(all []Part, want []int) (parts []Part, size int64, err error) {
	if want == nil {
		parts = all
	}
	next := 0
	for i, number := range want {
		for next < len(all) && all[next].Number < number {
			next++
		}
		if next == len(all) || all[next].Number != number || i > 0 && want[i-1] >= number {
			return nil, 0, fault.New("content.Complete", fault.Invalid, CodeInvalidPart, "part %d did not arrive, or is out of order", number)
		}
		parts = append(parts, all[next])
	}
	if len(parts) == 0 {
		return nil, 0, fault.New("content.Complete", fault.Invalid, CodeInvalidPart, "an upload has at least one part")
	}
	for _, p := range parts {
		size += p.Size
	}
	return parts, size, nil
}

func (s *Store) completeAtStore(ctx context.Context, u Upload, parts []Part, size int64, want string) (Pending, error) {
	store, ok := s.bucket.(blob.Multiparter)
	if !ok {
		return Pending{}, errors.New("content: the bucket of this upload took parts, and this one does not")
	}
	refs := make([]blob.PartRef, len(parts))
	for i, p := range parts {
		if p.Size < store.MinPart() && i < len(parts)-1 {
			return Pending{}, fault.New("content.Complete", fault.Unprocessable, CodePartTooSmall,
				"part %d has %d bytes; the store takes no part below %d but the last", p.Number, p.Size, store.MinPart())
		}
		refs[i] = blob.PartRef{Number: p.Number, Tag: p.etag}
	}
	id, err := s.cfg.NewID(ctx, u.fs)
	if err != nil {
		return Pending{}, err
	}
	if err := s.push(ctx, u.fs, u.key, s.cfg.WriteTimeout); err != nil {
		return Pending{}, err
	}
	kept, stop := s.keep(ctx, u.fs, u.key)
	sum, err := s.joinAtStore(kept, store, u, refs, parts)
	if late := stop(); late != nil {
		err = late
	}
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err == nil && want != "" && !strings.EqualFold(sum, want):
		err = fault.New("content.Complete", fault.Unprocessable, CodeChecksum, "the parts have the SHA-256 %s, not %s", sum, want)
	}
	if isCollected(err) {
		if err = s.lost(ctx, u); isCollected(err) {
			s.condemn(ctx, u.fs, u.key) // the store may have completed it after it was deleted
		}
	}
	if err != nil {
		return Pending{}, err
	}
	return Pending{ID: id, Size: size, SHA256: sum, fs: u.fs, key: u.key, parts: true}, nil
}

// lost tells why the task of an upload is not there to be pushed on: a twin has completed the
// upload, and a content names the object, or a collector has it (ErrCollected).
func (s *Store) lost(ctx context.Context, u Upload) error {
	now, err := s.Upload(ctx, s.db, u.fs, u.ID)
	switch {
	case err == nil && now.State == Completed:
		return now.Ended()
	case err == nil || fault.Is(err, CodeNoSuchUpload):
		return ErrCollected
	}
	return err
}

// joinAtStore completes the store's upload, reads the object back and returns its checksum.
func (s *Store) joinAtStore(ctx context.Context, store blob.Multiparter, u Upload, refs []blob.PartRef, parts []Part) (string, error) {
	err := store.CompleteMultipart(ctx, u.key, u.store, refs)
	switch blob.ClassOf(err) {
	case blob.NotExist, blob.Exist: // completed before: what it became is read now
	case blob.Denied, blob.Throttled, blob.Unavailable:
		return "", ofStore("content.Complete", err)
	default:
		if err != nil {
			return "", fault.Wrap("content.Complete", fault.Conflict, CodeInvalidPart, err, "the store does not take these parts; send them again")
		}
	}
	if err := s.cfg.Step(ctx, "complete: joined"); err != nil {
		return "", err
	}
	object, err := s.openJoined(ctx, u)
	if err != nil {
		return "", err
	}
	sum, err := readBack(object, parts)
	if err := errors.Join(err, object.Close()); err != nil {
		return "", ofStore("content.Complete", err)
	}
	return sum, nil
}

const (
	joinTries = 5 // looks for an object that a twin may be making
	joinPause = 200 * time.Millisecond
)

// openJoined opens what the parts became. While a twin completes the upload, a store may know
// its parts no more, and the object not yet.
func (s *Store) openJoined(ctx context.Context, u Upload) (io.ReadCloser, error) {
	for try := 1; ; try++ {
		object, _, err := s.bucket.Open(ctx, u.key)
		if err == nil {
			return object, nil
		}
		if !blob.IsNotExist(err) {
			return nil, ofStore("content.Complete", err)
		}
		now, err := s.Upload(ctx, s.db, u.fs, u.ID)
		if err == nil {
			err = now.Ended()
		}
		if err == nil && try == joinTries {
			err = errAborted
		}
		if err != nil {
			return nil, err
		}
		pause := time.NewTimer(joinPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// readBack proves that an object is made of the parts and returns its checksum.
func readBack(object io.Reader, parts []Part) (string, error) {
	whole := sha256.New()
	for _, p := range parts {
		part := sha256.New()
		n, err := io.CopyN(io.MultiWriter(whole, part), object, p.Size)
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		if n != p.Size || hex.EncodeToString(part.Sum(nil)) != p.SHA256 {
			return "", otherParts(p.Number)
		}
	}
	if n, err := io.CopyN(io.Discard, object, 1); n != 0 {
		return "", otherParts(0)
	} else if !errors.Is(err, io.EOF) {
		return "", err
	}
	return hex.EncodeToString(whole.Sum(nil)), nil
}

func otherParts(number int) error {
	return fault.New("content.Complete", fault.Conflict, CodeInvalidPart,
		"part %d is not what was acknowledged, or the upload was completed with others", number)
}

// joined reads parts that are objects, one after another, and proves each.
type joined struct {
	ctx    context.Context // of the Complete that it lives in
	bucket blob.Bucket
	parts  []Part // from the one under way on
	object io.ReadCloser
	proof  *body
}

// Read reads on.
func (j *joined) Read(p []byte) (int, error) {
	for len(j.parts) > 0 {
		part := j.parts[0]
		if j.object == nil {
			object, _, err := j.bucket.Open(j.ctx, part.key)
			if blob.IsNotExist(err) {
				return 0, fault.Wrap("content.Complete", fault.Conflict, CodeInvalidPart, err, "part %d was replaced meanwhile", part.Number)
			}
			if err != nil {
				return 0, storeFault(err)
			}
			j.object, j.proof = object, newBody(object, WriteOptions{ExpectSize: &part.Size, ExpectSHA256: part.SHA256})
		}
		n, err := j.proof.Read(p)
		switch {
		case err == nil:
			return n, nil
		case !errors.Is(err, io.EOF):
			return n, storeFault(err)
		}
		err = j.Close()
		j.parts = j.parts[1:]
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.EOF
}

// Close closes the object under way.
func (j *joined) Close() error {
	if j.object == nil {
		return nil
	}
	err := j.object.Close()
	j.object = nil
	return err
}

// storeFault keeps trouble with parts that we hold from looking like the client's.
func storeFault(err error) error {
	err = ofStore("content.Complete", err)
	if fault.KindOf(err) == fault.Busy || fault.KindOf(err) == fault.Conflict {
		return err
	}
	return fault.Wrap("content.Complete", fault.Internal, CodeDamaged, err, "a part can not be read")
}
