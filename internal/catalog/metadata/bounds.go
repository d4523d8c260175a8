package metadata

// Check refuses a request body that is too large or nested too deeply, as Invalid.
func (l Limits) Check(body []byte) error {
	if err := l.check(body); err != nil {
		return invalid("metadata.Limits.Check", "request body", err)
	}
	return nil
}

// Bytes is the longest document that is read, in bytes.
func (l Limits) Bytes() int64 { return l.withDefaults().MaxBytes }
