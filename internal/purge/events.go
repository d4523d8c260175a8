package purge

// Events are told to whoever subscribes; all may be nil, none may block.
type Events struct {
	Started   func(j Job)                        // an attempt begins
	Completed func(j Job, p Progress)            // everything is settled
	Failed    func(j Job, p Progress, err error) // an attempt ended with an error of its own
	Files     func(t Tally, failed int64)        // files settled, or failed, just now
}

func (e *Events) started(j Job) {
	if e.Started != nil {
		e.Started(j)
	}
}

func (e *Events) completed(j Job, p *Progress) {
	if e.Completed != nil {
		e.Completed(j, *p)
	}
}

func (e *Events) failed(j Job, p *Progress, err error) {
	if e.Failed != nil {
		e.Failed(j, *p, err)
	}
}

func (e *Events) files(t Tally, failed int64) {
	if e.Files != nil {
		e.Files(t, failed)
	}
}
