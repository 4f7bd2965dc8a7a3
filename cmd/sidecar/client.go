package main

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/cli"
	"github.com/pawl-dev/pawl/internal/config"
)

// client is how the commands that talk to a sidecar reach it.
type client struct {
	target    cli.Target
	tokenFile string
	namespace string
}

// bind adds the flags of a connection to a group of commands.
func (c *client) bind(cmd *cobra.Command) {
	c.bindTarget(cmd)
	cmd.PersistentFlags().StringVar(&c.namespace, "namespace", "", "namespace (default \"default\")")
}

// bindTarget adds those of a command about the sidecar as a whole.
func (c *client) bindTarget(cmd *cobra.Command) {
	fs := cmd.PersistentFlags()
	fs.StringVar(&c.target.Addr, "addr", fromEnv("PAWL_ADDR", config.Default().Listen), "HOST:PORT or unix:PATH of the sidecar (PAWL_ADDR)")
	fs.StringVar(&c.tokenFile, "token-file", os.Getenv("PAWL_TOKEN_FILE"), "file that holds the bearer token (PAWL_TOKEN_FILE; or the token in PAWL_TOKEN)")
	fs.StringVar(&c.target.CA, "ca", os.Getenv("PAWL_CA"), "PEM file of the authority of the server's certificate (PAWL_CA); none: no TLS")
}

func fromEnv(name, fallback string) string {
	if v, ok := os.LookupEnv(name); ok {
		return v
	}
	return fallback
}

// with runs a function over a connection. The token never stands on the command
// line, where other users of the machine could read it.
func (c *client) with(do func(*grpc.ClientConn) error) (err error) {
	if c.target.Token, err = c.token(); err != nil {
		return cli.Usage(err)
	}
	ids := &runIDs{namespace: c.namespace}
	c.target.Options = []grpc.DialOption{grpc.WithUnaryInterceptor(ids.unary), grpc.WithStreamInterceptor(ids.stream)}
	conn, err := cli.Dial(c.target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(c.target.Unreachable(err), conn.Close()) }()
	return do(conn)
}

func (c *client) token() (string, error) {
	if c.tokenFile == "" {
		return os.Getenv("PAWL_TOKEN"), nil
	}
	raw, err := os.ReadFile(c.tokenFile)
	return strings.TrimSpace(string(raw)), err
}

// runs runs a function over the run service.
func (c *client) runs(do func(pawlv1.RunServiceClient) error) error {
	return c.with(func(conn *grpc.ClientConn) error { return do(pawlv1.NewRunServiceClient(conn)) })
}

// store runs a function over the store service.
func (c *client) store(do func(pawlv1.StoreServiceClient) error) error {
	return c.with(func(conn *grpc.ClientConn) error { return do(pawlv1.NewStoreServiceClient(conn)) })
}

// packs runs a function over the pack service.
func (c *client) packs(do func(pawlv1.PackServiceClient) error) error {
	return c.with(func(conn *grpc.ClientConn) error { return do(pawlv1.NewPackServiceClient(conn)) })
}
