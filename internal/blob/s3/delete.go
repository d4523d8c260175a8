package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/pace"
)

// LeaseHeader carries the lease of every delete, see blob.WithLease.
const LeaseHeader = "X-Lethe-Lease"

// lateness is how long after the begin of a DeleteMany it still sends requests.
const lateness = 5 * time.Second

var (
	errUnnamed = errors.New("the store's answer names none of the keys")
	errLate    = errors.New("not sent: the delete had taken too long before")
)

// deletion is one DeleteMany. It goes by the index of a key's first result.
type deletion struct {
	*Bucket
	began   time.Time
	results []blob.Result
	at      map[blob.Key]int
	again   map[int][]int // the other results of a key that comes more than once
}

// DeleteMany deletes keys: one with DeleteObject, more with DeleteObjects and at most
// blob.MaxDelete of them a request. Keys that XML cannot carry, or that the answer does
// not name, go one by one.
func (b *Bucket) DeleteMany(ctx context.Context, keys []blob.Key) []blob.Result {
	defer pace.Of(ctx).Pause()
	d := &deletion{Bucket: b, began: time.Now(), results: make([]blob.Result, len(keys)), at: make(map[blob.Key]int, len(keys))}
	bulk, single := make([]int, 0, len(keys)), []int(nil)
	rootPlain := plain(b.root)
	for i, key := range keys {
		d.results[i] = blob.Result{Key: key, Outcome: blob.Missing}
		if !b.fits(key) {
			continue // what cannot be is not there
		}
		if first, twice := d.at[key]; twice {
			if d.again == nil {
				d.again = map[int][]int{}
			}
			d.again[first] = append(d.again[first], i)
			continue
		}
		d.at[key] = i
		if rootPlain && plain(string(key)) {
			bulk = append(bulk, i)
		} else {
			single = append(single, i)
		}
	}
	if len(bulk) == 1 {
		bulk, single = nil, append(single, bulk...)
	}
	for chunk := range slices.Chunk(bulk, blob.MaxDelete) {
		single = append(single, d.together(ctx, chunk)...)
	}
	for _, i := range single {
		d.alone(ctx, i)
	}
	return d.results
}

// settle records what became of a key.
func (d *deletion) settle(first int, outcome blob.Outcome, err *blob.Error) {
	d.result(first, outcome, err)
	for _, i := range d.again[first] {
		d.result(i, outcome, err)
	}
}

func (d *deletion) result(i int, outcome blob.Outcome, err *blob.Error) {
	r := &d.results[i]
	r.Outcome, r.Err = outcome, nil
	if err != nil {
		r.Err = failed(err.Op, r.Key, err.Class, err.Err)
	}
}

// late refuses what a process that was stopped meanwhile would send.
func (d *deletion) late(ctx context.Context) *blob.Error {
	switch {
	case ctx.Err() != nil:
		return failed("delete", "", blob.Other, context.Cause(ctx))
	case time.Since(d.began) > d.lateness:
		return failed("delete", "", blob.Other, errLate)
	}
	return nil
}

// together makes one bulk request and returns what its answer leaves out.
func (d *deletion) together(ctx context.Context, chunk []int) (unnamed []int) {
	pace.Of(ctx).Step()
	err := d.late(ctx)
	var said *answer
	if err == nil {
		said, err = d.request(ctx, chunk)
	}
	if err != nil {
		for _, i := range chunk {
			d.settle(i, blob.Failed, err)
		}
		return nil
	}
	open, left := make([]bool, len(d.results)), len(chunk)
	for _, i := range chunk {
		open[i] = true
	}
	for _, name := range said.gone {
		if i, known := d.named(name); known && open[i] {
			open[i] = false
			left--
			d.settle(i, blob.Deleted, nil)
		}
	}
	for _, refused := range said.refused {
		i, known := d.named([]byte(aws.ToString(refused.Key)))
		if !known {
			continue
		}
		if open[i] {
			open[i] = false
			left--
		}
		err := &smithy.GenericAPIError{Code: aws.ToString(refused.Code), Message: aws.ToString(refused.Message)}
		d.settleError(i, failed("delete", "", codeClass(err.Code), err))
	}
	if left == len(chunk) {
		for _, i := range chunk {
			d.settle(i, blob.Failed, failed("delete", "", blob.NotSupported, errUnnamed))
		}
		return nil
	}
	if left == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(chunk), func(i int) bool { return !open[i] })
}

// named finds the key that an answer names.
func (d *deletion) named(name []byte) (first int, known bool) {
	if len(name) < len(d.root) || string(name[:len(d.root)]) != d.root {
		return 0, false
	}
	first, known = d.at[blob.Key(name[len(d.root):])]
	return first, known
}

func (d *deletion) request(ctx context.Context, chunk []int) (*answer, *blob.Error) {
	keys := make([]blob.Key, len(chunk))
	for k, i := range chunk {
		keys[k] = d.results[i].Key
	}
	inner, cancel := d.limited(ctx)
	defer cancel()
	b := bulk{body: deleteBody(d.root, keys)}
	said, err := b.send(inner, d.client, d.cfg.Bucket, leased(ctx))
	if err == nil {
		return said, nil
	}
	e := fail(ctx, "delete", "", err)
	if _, garbled := errors.AsType[*xml.SyntaxError](err); garbled && e.Class == blob.Unavailable {
		e.Class = blob.NotSupported // it came whole and cannot be read: no bulk delete of ours
	}
	return nil, e
}

// alone deletes one object.
func (d *deletion) alone(ctx context.Context, i int) {
	if err := d.late(ctx); err != nil {
		d.settle(i, blob.Failed, err)
		return
	}
	inner, cancel := d.limited(ctx)
	defer cancel()
	name, _ := d.name(d.results[i].Key)
	if _, err := d.client.DeleteObject(inner, &awss3.DeleteObjectInput{Bucket: &d.cfg.Bucket, Key: &name}, leased(ctx)); err != nil {
		d.settleError(i, fail(ctx, "delete", "", err))
		return
	}
	d.settle(i, blob.Deleted, nil)
}

// leased puts the lease of ctx into a request.
func leased(ctx context.Context) func(*awss3.Options) {
	return func(o *awss3.Options) {
		if lease := blob.LeaseOf(ctx); lease != "" {
			o.APIOptions = append(o.APIOptions, smithyhttp.SetHeaderValue(LeaseHeader, lease))
		}
	}
}

// settleError tells a store that complains about missing keys from one in trouble.
func (d *deletion) settleError(i int, err *blob.Error) {
	if code, ok := errors.AsType[smithy.APIError](err.Err); ok && code.ErrorCode() == "NoSuchKey" {
		d.settle(i, blob.Missing, nil)
		return
	}
	d.settle(i, blob.Failed, err)
}

// codeClass is the class of a key's own error in a bulk answer.
func codeClass(code string) blob.Class {
	class, known := codes[code]
	switch {
	case !known, class == blob.NotExist, class == blob.NotSupported:
		return blob.Other // another try may mend it; it is not the request that is unknown
	default:
		return class
	}
}
