package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/lethe-project/lethe/internal/pace"
)

// bulk is the text of one DeleteObjects. The SDK spends more on the XML of a thousand keys
// than all the rest of a purge costs, so that it gets a request without keys: the body
// that it would have written takes the place of its own, and the answer's keys are taken
// out before it reads what remains. Signature, checksum, endpoint and errors are the SDK's.
type bulk struct {
	body   []byte
	answer *answer // nil when the SDK read it
}

// answer is what a store said of the keys it was sent.
type answer struct {
	gone    [][]byte // names
	refused []types.Error
}

// maxAnswer is the most of an answer that is held for the fast way: a thousand names of
// the longest kind, each with an error.
const maxAnswer = 4 << 20

// nothing is an answer without keys.
const nothing = "<DeleteResult></DeleteResult>"

// send makes the request.
func (b *bulk) send(ctx context.Context, client *awss3.Client, bucket string, options ...func(*awss3.Options)) (*answer, error) {
	options = append(options, func(o *awss3.Options) { o.APIOptions = append(o.APIOptions, b.swap) })
	out, err := client.DeleteObjects(ctx, &awss3.DeleteObjectsInput{
		Bucket: &bucket, Delete: &types.Delete{Objects: []types.ObjectIdentifier{}, Quiet: aws.Bool(false)},
	}, options...)
	switch {
	case err != nil:
		return nil, err
	case b.answer != nil:
		return b.answer, nil
	}
	a := &answer{refused: out.Errors}
	for _, gone := range out.Deleted {
		a.gone = append(a.gone, []byte(aws.ToString(gone.Key)))
	}
	return a, nil
}

// swap puts the two texts where the SDK has its own.
func (b *bulk) swap(stack *middleware.Stack) error {
	return errors.Join(
		stack.Serialize.Insert(middleware.SerializeMiddlewareFunc("lethe:WriteKeys", b.write), "OperationSerializer", middleware.After),
		stack.Deserialize.Insert(middleware.DeserializeMiddlewareFunc("lethe:ReadKeys", b.read), "OperationDeserializer", middleware.After),
	)
}

func (b *bulk) write(ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler) (out middleware.SerializeOutput, md middleware.Metadata, err error) {
	request, ok := in.Request.(*smithyhttp.Request)
	if !ok {
		return out, md, &smithy.SerializationError{Err: fmt.Errorf("a request of type %T", in.Request)}
	}
	if in.Request, err = request.SetStream(bytes.NewReader(b.body)); err != nil {
		return out, md, &smithy.SerializationError{Err: err}
	}
	return next.HandleSerialize(ctx, in)
}

// read takes the keys out of an answer that is as expected. Any other, a broken one
// included, reaches the SDK as it came.
func (b *bulk) read(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	out, md, err := next.HandleDeserialize(ctx, in)
	response, ok := out.RawResponse.(*smithyhttp.Response)
	if err != nil || !ok || response.StatusCode < 200 || response.StatusCode >= 300 {
		return out, md, err
	}
	b.answer = nil
	var raw bytes.Buffer
	raw.Grow(len(b.body) + len(b.body)/8 + bytes.MinRead) // each key comes back with a little more around it
	n, readErr := raw.ReadFrom(io.LimitReader(response.Body, maxAnswer))
	pace.Of(ctx).Step()
	if readErr == nil && n < maxAnswer {
		b.answer = readAnswer(raw.Bytes())
	}
	var body io.Reader
	switch {
	case b.answer != nil:
		body = strings.NewReader(nothing)
	case readErr != nil:
		body = io.MultiReader(&raw, broken{readErr})
	default:
		body = io.MultiReader(&raw, response.Body)
	}
	response.Body = stepped{body, response.Body, pace.Of(ctx)}
	return out, md, nil
}

// broken is the rest of a body that could not be read.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// stepped is a body that has come already; the SDK decodes it slowly.
type stepped struct {
	io.Reader
	io.Closer
	section *pace.Section
}

// Read hands out as much as a decoder asks for at once.
func (s stepped) Read(p []byte) (int, error) {
	s.section.Step()
	return s.Reader.Read(p)
}
