package s3

import (
	"context"
	"errors"
	"sync"
	"time"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

// How long a look at the bucket holds: versions and locks may be switched on at any time.
const (
	notesAge   = 10 * time.Minute
	notesRetry = time.Minute // after a look during an outage, which told nothing
)

// character is what is known of the kind of bucket.
type character struct {
	mu      sync.Mutex
	notes   []string
	until   time.Time // then it is looked at again
	trouble error     // of the last look
}

// Notes says what a delete in this bucket does not do, as found some minutes ago at most.
func (b *Bucket) Notes(ctx context.Context) []string {
	b.kind.mu.Lock()
	defer b.kind.mu.Unlock()
	if !time.Now().Before(b.kind.until) {
		_ = b.look(ctx) // a bucket that is gone is for those to tell who want its objects
	}
	return b.kind.notes
}

// Trouble says why the last look at the bucket told nothing: the store does not answer, or
// takes nothing from whoever asks. It is nil while all is well, as far as is known.
func (b *Bucket) Trouble() error {
	b.kind.mu.Lock()
	defer b.kind.mu.Unlock()
	return b.kind.trouble
}

// look asks what kind of bucket this is. Only a bucket that the store does not know is an
// error: the question may be denied, unknown to the store, or come during an outage, which
// leaves what was known before. Its user holds the mutex, or is alone.
func (b *Bucket) look(ctx context.Context) error {
	inner, cancel := context.WithTimeout(ctx, min(b.cfg.Timeout, dialTimeout))
	defer cancel()
	var notes []string
	versioning, err := b.client.GetBucketVersioning(inner, &awss3.GetBucketVersioningInput{Bucket: &b.cfg.Bucket}, b.retry)
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "NoSuchBucket" && !ofCredentials(err) {
		return errors.New("the store has no such bucket")
	}
	if err == nil && versioning.Status != "" {
		notes = append(notes, "bucket "+b.cfg.Bucket+" keeps versions: deleted files stay as noncurrent versions until a lifecycle rule removes them")
	}
	if b.unheard(ctx, err) {
		return nil
	}
	lock, err := b.client.GetObjectLockConfiguration(inner, &awss3.GetObjectLockConfigurationInput{Bucket: &b.cfg.Bucket}, b.retry)
	if b.unheard(ctx, err) {
		return nil
	}
	if err == nil && lock.ObjectLockConfiguration != nil && lock.ObjectLockConfiguration.ObjectLockEnabled == types.ObjectLockEnabledEnabled {
		notes = append(notes, "bucket "+b.cfg.Bucket+" has object lock: versions under retention or legal hold cannot be removed before it ends")
	}
	b.kind.notes, b.kind.until, b.kind.trouble = notes, time.Now().Add(notesAge), nil
	return nil
}

// unheard reports whether the store answered nothing that is about the bucket, and puts the
// question off.
func (b *Bucket) unheard(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	api, ok := errors.AsType[smithy.APIError](err)
	if wrongSecret := ok && api.ErrorCode() == "SignatureDoesNotMatch"; !wrongSecret && !classOf(err).Outage() {
		return false
	}
	if ctx.Err() == nil { // else it was not the store who gave up
		b.kind.until, b.kind.trouble = time.Now().Add(notesRetry), err
	}
	return true
}
