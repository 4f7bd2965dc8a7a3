package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/output"
)

// client connects the commands to a sidecar. It holds the values of the connection flags.
type client struct {
	Target    output.Target
	tokenFile string
	Namespace string
}

// Bind adds the flags of a connection, with the namespace, to a group of commands.
func (c *client) Bind(cmd *cobra.Command) {
	c.BindTarget(cmd)
	cmd.PersistentFlags().StringVar(&c.Namespace, "namespace", "", "namespace (default \"default\")")
}

// BindTarget adds the flags of a connection to a command that is about the whole sidecar.
func (c *client) BindTarget(cmd *cobra.Command) {
	fs := cmd.PersistentFlags()
	fs.StringVar(&c.Target.Addr, "addr", fromEnv("PAWL_ADDR", config.Default().Listen), "HOST:PORT or unix:PATH of the sidecar (PAWL_ADDR)")
	fs.StringVar(&c.tokenFile, "token-file", os.Getenv(tokenFileVariable), "file with the bearer token (PAWL_TOKEN_FILE; PAWL_TOKEN holds the token itself)")
	fs.StringVar(&c.Target.CA, "ca", os.Getenv("PAWL_CA"), "PEM file of the CA of the server's certificate (PAWL_CA; default: no TLS)")
	fs.StringVar(&c.Target.Cert, "cert", os.Getenv("PAWL_CERT"), "PEM file of the caller's certificate, for a sidecar that requires one (PAWL_CERT)")
	fs.StringVar(&c.Target.Key, "key", os.Getenv("PAWL_KEY"), "PEM file of the private key of --cert (PAWL_KEY)")
}

func fromEnv(name, fallback string) string {
	if v, ok := os.LookupEnv(name); ok {
		return v
	}
	return fallback
}

// With calls do with a connection. The token is not a flag, because other users of the machine can read command lines.
func (c *client) With(do func(*grpc.ClientConn) error) (err error) {
	if c.Target.Token, err = c.token(); err != nil {
		return output.Usage(err)
	}
	ids := &runIDs{namespace: c.Namespace}
	c.Target.Options = []grpc.DialOption{grpc.WithUnaryInterceptor(ids.unary), grpc.WithStreamInterceptor(ids.stream)}
	conn, err := output.Dial(c.Target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(c.Target.Unreachable(err), conn.Close()) }()
	return do(conn)
}

func (c *client) token() (string, error) {
	if c.tokenFile == "" {
		return os.Getenv("PAWL_TOKEN"), nil
	}
	raw, err := os.ReadFile(c.tokenFile)
	return strings.TrimSpace(string(raw)), err
}

// Runs calls do with a client of the run service.
func (c *client) Runs(do func(pawlv1.RunServiceClient) error) error {
	return c.With(func(conn *grpc.ClientConn) error { return do(pawlv1.NewRunServiceClient(conn)) })
}

// Store calls do with a client of the store service.
func (c *client) Store(do func(pawlv1.StoreServiceClient) error) error {
	return c.With(func(conn *grpc.ClientConn) error { return do(pawlv1.NewStoreServiceClient(conn)) })
}

// Packs calls do with a client of the pack service.
func (c *client) Packs(do func(pawlv1.PackServiceClient) error) error {
	return c.With(func(conn *grpc.ClientConn) error { return do(pawlv1.NewPackServiceClient(conn)) })
}

// newID returns a new idempotency id for one call of a command.
func newID(command string) string { return fmt.Sprintf("cli-%s-%d", command, time.Now().UnixNano()) }
