package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/lethe-project/lethe/client"
)

type jobCmd struct {
	List   jobListCmd   `cmd:"" name:"ls" help:"List deletes, newest first."`
	Show   jobShowCmd   `cmd:"" help:"Show a delete."`
	Wait   jobWaitCmd   `cmd:"" help:"Wait until a delete has ended."`
	Cancel jobCancelCmd `cmd:"" help:"Stop a delete for good; what is not deleted yet stays."`
	Retry  jobRetryCmd  `cmd:"" help:"Run a FAILED or CANCELLED delete again."`
	Ack    jobAckCmd    `cmd:"" help:"Give up a FAILED or CANCELLED delete: its files stay, its locations are free again."`
	Pause  jobPauseCmd  `cmd:"" help:"Keep workers away from a delete."`
	Resume jobResumeCmd `cmd:"" help:"Undo pause."`
}

type jobListCmd struct {
	remote
	State     string `name:"state" enum:"PENDING,RUNNING,SUCCEEDED,FAILED,CANCELLED," default:"" help:"Only those: PENDING, RUNNING, SUCCEEDED, FAILED or CANCELLED." placeholder:"STATE"`
	Kind      string `name:"kind" help:"Only those of a kind: purge for tables and views, delete for trees of the drive, close for warehouses and tenants." placeholder:"KIND"`
	Warehouse string `name:"warehouse" help:"Only those of a warehouse." placeholder:"NAME"`
	Namespace string `name:"namespace" help:"Only those of objects in a namespace." placeholder:"NAMESPACE"`
	Table     string `name:"table" help:"Only those of objects of that name." placeholder:"NAME"`
}

// Run lists jobs.
func (j *jobListCmd) Run(ctx context.Context, c *console) error {
	filter := client.JobFilter{State: client.JobState(j.State), Kind: j.Kind, Warehouse: j.Warehouse, Table: j.Table}
	if j.Namespace != "" {
		var err error
		if filter.Namespace, err = namespaceArg(j.Namespace); err != nil {
			return err
		}
	}
	server, err := j.connect()
	if err != nil {
		return err
	}
	out := c.rows()
	if !j.JSON {
		out.add("JOB", "STATE", "ATTEMPTS", "PHASE", "FILES", "OBJECT", "UPDATED")
	}
	for job, err := range server.Jobs().List(ctx, filter) {
		if err != nil {
			return err
		}
		if j.JSON {
			if err := c.json(job); err != nil {
				return err
			}
			continue
		}
		out.add(job.Job, stateOf(job), strconv.Itoa(job.Attempts), job.Phase, count(job.Counts().Files), objectOf(job), moment(job.UpdatedAt))
	}
	return out.flush()
}

// oneJob are the flags and the argument of commands on one job.
type oneJob struct {
	remote
	Job string `arg:"" help:"Name of the job, such as purge-42 or delete-7."`
}

// control does something to the job, and tells how it stands then.
func (j *oneJob) control(c *console, do func(client.Jobs) (client.Job, error), done string) error {
	server, err := j.connect()
	if err != nil {
		return err
	}
	job, err := do(server.Jobs())
	switch {
	case client.IsNotFound(err):
		return hintError{err, "See which jobs there are: lethe job ls"}
	case err != nil:
		return err
	case j.JSON:
		return c.json(job)
	}
	return c.print("%s %s (%s).", job.Job, done, stateOf(job))
}

type jobShowCmd struct{ oneJob }

// Run shows one job.
func (j *jobShowCmd) Run(ctx context.Context, c *console) error {
	server, err := j.connect()
	if err != nil {
		return err
	}
	job, err := server.Jobs().Get(ctx, j.Job)
	if client.IsNotFound(err) {
		return hintError{err, "See which jobs there are: lethe job ls"}
	}
	if err != nil {
		return err
	}
	if j.JSON {
		return c.json(job)
	}
	return c.showJob(job)
}

type jobWaitCmd struct{ oneJob }

// Run waits for one job.
func (j *jobWaitCmd) Run(ctx context.Context, c *console) error {
	server, err := j.connect()
	if err != nil {
		return err
	}
	return c.await(ctx, server.Jobs(), j.Job, j.JSON)
}

type jobCancelCmd struct{ oneJob }

// Run cancels one job. Only the owner of a running one can say that it has stopped.
func (j *jobCancelCmd) Run(ctx context.Context, c *console) error {
	return j.control(c, func(jobs client.Jobs) (client.Job, error) {
		job, err := jobs.Cancel(ctx, j.Job)
		if err != nil {
			return job, err
		}
		if !job.State.Ended() {
			if !j.JSON {
				c.note("%s is running: waiting until its worker has stopped.", job.Job)
			}
			if job, err = jobs.Wait(ctx, j.Job, client.WaitOptions{}); err != nil {
				return job, hintError{err, "The job was asked to stop and will: lethe job show " + j.Job}
			}
		}
		if job.State != client.Cancelled {
			return job, fmt.Errorf("%s was not cancelled: it ended %s before its worker saw the request", job.Job, job.State)
		}
		return job, nil
	}, "is cancelled; what it had not deleted stays")
}

type jobRetryCmd struct {
	oneJob
	AcceptMissing bool `name:"accept-missing" help:"Count metadata that is missing as deleted. Files that only it named are never found then."`
}

// Run runs one job again.
func (j *jobRetryCmd) Run(ctx context.Context, c *console) error {
	return j.control(c, func(jobs client.Jobs) (client.Job, error) {
		return jobs.Retry(ctx, j.Job, client.RetryOptions{AcceptMissing: j.AcceptMissing})
	}, "runs again")
}

type jobAckCmd struct{ oneJob }

// Run acknowledges one job.
func (j *jobAckCmd) Run(ctx context.Context, c *console) error {
	return j.control(c, func(jobs client.Jobs) (client.Job, error) { return jobs.Ack(ctx, j.Job) }, "is acknowledged")
}

type jobPauseCmd struct{ oneJob }

// Run pauses one job.
func (j *jobPauseCmd) Run(ctx context.Context, c *console) error {
	return j.control(c, func(jobs client.Jobs) (client.Job, error) { return jobs.Pause(ctx, j.Job) }, "is paused")
}

type jobResumeCmd struct{ oneJob }

// Run resumes one job.
func (j *jobResumeCmd) Run(ctx context.Context, c *console) error {
	return j.control(c, func(jobs client.Jobs) (client.Job, error) { return jobs.Resume(ctx, j.Job) }, "goes on")
}
