package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/lethe-project/lethe/client"
)

const secretsHelp = `No secret is ever a flag: it would stand in the shell's history and in the list of processes.
The secret access key is read from --secret-access-key-file, else from the environment
variable LETHE_STORAGE_SECRET_ACCESS_KEY, else it is asked for. A session token comes from
--session-token-file or LETHE_STORAGE_SESSION_TOKEN, an external id from --external-id-file or
LETHE_STORAGE_EXTERNAL_ID. A file that is - is the standard input.`

// credentialFlags say with whose rights the server uses storage.
type credentialFlags struct {
	Credentials     string `name:"credentials" enum:"default,static,assume-role," default:"" help:"static: a key; assume-role: a role; default: what the server's surroundings give it. Told by the other flags when left out." placeholder:"TYPE"`
	AccessKeyID     string `name:"access-key-id" help:"Id of the key." placeholder:"ID"`
	SecretFile      string `name:"secret-access-key-file" help:"File with the secret of the key." placeholder:"FILE"`
	SessionFile     string `name:"session-token-file" help:"File with the session token of the key, if it has one." placeholder:"FILE"`
	RoleARN         string `name:"role-arn" help:"Role to assume." placeholder:"ARN"`
	ExternalIDFile  string `name:"external-id-file" help:"File with the external id that the role asks for, if it does." placeholder:"FILE"`
	RoleSessionName string `name:"role-session-name" help:"Name of the session in the logs of the role's account." placeholder:"NAME"`
	STSEndpoint     string `name:"sts-endpoint" help:"URL of a token service that is not AWS." placeholder:"URL"`
}

// read returns the credentials that the flags, files and environment give; nil when the
// flags say nothing of any.
func (f *credentialFlags) read(c *console) (*client.StorageCredentials, error) {
	kind := f.Credentials
	if kind == "" {
		switch {
		case f.RoleARN != "":
			kind = client.CredentialsAssumeRole
		case f.AccessKeyID != "" || f.SecretFile != "" || f.SessionFile != "":
			kind = client.CredentialsStatic
		default:
			return nil, nil //nolint:nilnil // none were named
		}
	}
	out := &client.StorageCredentials{Type: kind}
	var err error
	switch kind {
	case client.CredentialsStatic:
		if f.AccessKeyID == "" {
			return nil, usageError{errors.New("credentials of type static need --access-key-id")}
		}
		out.AccessKeyID = f.AccessKeyID
		if out.SessionToken, err = secretFrom(f.SessionFile, "LETHE_STORAGE_SESSION_TOKEN"); err != nil {
			return nil, err
		}
		if out.SecretAccessKey, err = secretFrom(f.SecretFile, "LETHE_STORAGE_SECRET_ACCESS_KEY"); err != nil {
			return nil, err
		}
		if out.SecretAccessKey == "" {
			if out.SecretAccessKey, err = askSecret(c, "Secret access key"); err != nil {
				return nil, err
			}
		}
	case client.CredentialsAssumeRole:
		if f.RoleARN == "" {
			return nil, usageError{errors.New("credentials of type assume-role need --role-arn")}
		}
		out.RoleARN, out.SessionName, out.STSEndpoint = f.RoleARN, f.RoleSessionName, f.STSEndpoint
		out.ExternalID, err = secretFrom(f.ExternalIDFile, "LETHE_STORAGE_EXTERNAL_ID")
	}
	return out, err
}

// secretFrom reads a secret from a file, else from the environment.
func secretFrom(file, variable string) (string, error) {
	if file == "" {
		return os.Getenv(variable), nil
	}
	if file == "-" {
		file = os.Stdin.Name()
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", usageError{err}
	}
	text := strings.TrimSpace(string(raw))
	if text == "" {
		return "", usageError{fmt.Errorf("%s is empty", file)}
	}
	return text, nil
}

// askSecret asks a person, without showing what is typed.
func askSecret(c *console, what string) (string, error) {
	in := int(os.Stdin.Fd())
	if !term.IsTerminal(in) {
		return "", usageError{errors.New("the secret access key is missing: give --secret-access-key-file, or LETHE_STORAGE_SECRET_ACCESS_KEY")}
	}
	_, _ = fmt.Fprintf(c.err, "%s: ", what) // nowhere else to say so
	raw, err := term.ReadPassword(in)
	c.note("")
	if err != nil {
		return "", err
	}
	if text := strings.TrimSpace(string(raw)); text != "" {
		return text, nil
	}
	return "", usageError{errors.New("no secret was typed")}
}
