package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/lethe-project/lethe/internal/blob"
)

// Open streams an object. The stream fails when the store is silent for too long; an
// error of it is a *blob.Error as well.
func (b *Bucket) Open(ctx context.Context, key blob.Key) (io.ReadCloser, blob.Info, error) {
	body, out, err := b.get(ctx, key, nil)
	if err != nil {
		return nil, blob.Info{}, err
	}
	return body, blob.Info{Key: key, Size: aws.ToInt64(out.ContentLength), ModTime: aws.ToTime(out.LastModified)}, nil
}

// OpenRange streams a part of an object.
func (b *Bucket) OpenRange(ctx context.Context, key blob.Key, offset, length int64) (io.ReadCloser, error) {
	body, out, err := b.get(ctx, key, aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)))
	if err != nil {
		return nil, err
	}
	// A store, or what stands before it, may ignore the range and send all.
	if got := aws.ToString(out.ContentRange); !strings.HasPrefix(got, fmt.Sprintf("bytes %d-", offset)) {
		_ = body.Close()
		return nil, failed("open", key, blob.NotSupported, errNoRange)
	}
	return body, nil
}

func (b *Bucket) get(ctx context.Context, key blob.Key, span *string) (io.ReadCloser, *awss3.GetObjectOutput, error) {
	name, ok := b.name(key)
	if !ok {
		return nil, nil, failed("open", key, blob.NotExist, errNoName)
	}
	inner, cancel := context.WithCancelCause(ctx)
	out, err := b.client.GetObject(inner, &awss3.GetObjectInput{Bucket: &b.cfg.Bucket, Key: &name, Range: span}, b.retry)
	if err != nil {
		cancel(nil)
		return nil, nil, fail(ctx, "open", key, err)
	}
	return newStream(ctx, key, out.Body, cancel, b.cfg.Timeout), out, nil
}

// stream is the body of an object.
type stream struct {
	ctx    context.Context // of the Open call whose object it is
	key    blob.Key
	body   io.ReadCloser
	cancel context.CancelCauseFunc
	silent *time.Timer // runs while a Read waits
	limit  time.Duration
}

func newStream(ctx context.Context, key blob.Key, body io.ReadCloser, cancel context.CancelCauseFunc, limit time.Duration) *stream {
	s := &stream{ctx: ctx, key: key, body: body, cancel: cancel, limit: limit}
	s.silent = time.AfterFunc(limit, func() { cancel(errStalled) })
	s.silent.Stop()
	return s
}

// Read reads on.
func (s *stream) Read(p []byte) (int, error) {
	s.silent.Reset(s.limit)
	n, err := s.body.Read(p)
	s.silent.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = fail(s.ctx, "open", s.key, err)
	}
	return n, err
}

// Close releases the connection.
func (s *stream) Close() error {
	s.cancel(nil)
	_ = s.body.Close() // what was read was read
	return nil
}

// Stat describes an object.
func (b *Bucket) Stat(ctx context.Context, key blob.Key) (blob.Info, error) {
	name, ok := b.name(key)
	if !ok {
		return blob.Info{}, failed("stat", key, blob.NotExist, errNoName)
	}
	inner, cancel := b.limited(ctx)
	defer cancel()
	out, err := b.client.HeadObject(inner, &awss3.HeadObjectInput{Bucket: &b.cfg.Bucket, Key: &name}, b.retry)
	if err != nil {
		return blob.Info{}, fail(ctx, "stat", key, err)
	}
	return blob.Info{Key: key, Size: aws.ToInt64(out.ContentLength), ModTime: aws.ToTime(out.LastModified)}, nil
}

var (
	errNoNextPage = errors.New("the listing has no next page, or the same again")
	errAlienKey   = errors.New("the listing holds a key that was not asked for")
	errNoRange    = errors.New("the store ignored the range")
)

// List lists page by page; every page is a request.
func (b *Bucket) List(ctx context.Context, prefix blob.Key, fn func(blob.Info) error) error {
	full := b.root + string(prefix)
	if len(full) > maxName || strings.IndexByte(full, 0) >= 0 {
		return nil
	}
	in := &awss3.ListObjectsV2Input{Bucket: &b.cfg.Bucket, Prefix: &full, EncodingType: types.EncodingTypeUrl}
	for {
		out, err := b.page(ctx, in)
		if err != nil {
			return fail(ctx, "list", prefix, err)
		}
		for _, object := range out.Contents {
			info, err := b.listed(object, out.EncodingType, full)
			if err != nil {
				return failed("list", prefix, blob.Other, err)
			}
			if err := fn(info); errors.Is(err, blob.ErrStop) {
				return nil
			} else if err != nil {
				return err
			}
		}
		if !aws.ToBool(out.IsTruncated) {
			return nil
		}
		next := aws.ToString(out.NextContinuationToken)
		if next == "" || next == aws.ToString(in.ContinuationToken) {
			return failed("list", prefix, blob.Other, errNoNextPage)
		}
		in.ContinuationToken = &next
	}
}

func (b *Bucket) page(ctx context.Context, in *awss3.ListObjectsV2Input) (*awss3.ListObjectsV2Output, error) {
	ctx, cancel := b.limited(ctx)
	defer cancel()
	return b.client.ListObjectsV2(ctx, in, b.retry)
}

// listed makes an Info of a listing's line. A store that ignored the wish for URL
// encoding does not name it in its answer.
func (b *Bucket) listed(object types.Object, encoding types.EncodingType, full string) (blob.Info, error) {
	name := aws.ToString(object.Key)
	if encoding == types.EncodingTypeUrl {
		var err error
		if name, err = url.QueryUnescape(name); err != nil {
			return blob.Info{}, err
		}
	}
	if !strings.HasPrefix(name, full) {
		return blob.Info{}, errAlienKey
	}
	return blob.Info{Key: blob.Key(name[len(b.root):]), Size: aws.ToInt64(object.Size), ModTime: aws.ToTime(object.LastModified)}, nil
}
