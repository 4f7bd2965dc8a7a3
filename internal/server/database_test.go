package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/internal/store/pg/preflight"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// reasonOf returns the reason of an error of a database, or "" for any other error.
func reasonOf(err error) preflight.Reason {
	if e, ok := errors.AsType[*DatabaseError](err); ok {
		return e.Reason
	}
	return ""
}

// TestDatabasePasswords: each way to give a password works, and the error about a wrong
// password does not contain it.
func TestDatabasePasswords(t *testing.T) {
	server := pgserver.Start(t)
	server.Query(t, "postgres", "ALTER ROLE pawl PASSWORD '"+pgserver.Password+"'")
	server.Query(t, "postgres", "COPY (SELECT 'host all all 127.0.0.1/32 scram-sha-256') TO '"+server.Query(t, "postgres", "SHOW hba_file")+"'")
	server.Set(t, nil)
	open := strings.Replace(server.URL("postgres"), ":"+pgserver.Password, "", 1)
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	right, wrong := file("right", pgserver.Password+"\n", 0o600), file("wrong", "s3cret\n", 0o600)
	passfile := file("pgpass", "*:*:*:pawl:"+pgserver.Password+"\n", 0o600)
	for name, tt := range map[string]struct {
		url, file string
		env       [2]string
		want      string
	}{
		"in the URL":        {url: server.URL("postgres"), want: "SCHEMA_EMPTY"},
		"in a file":         {url: open, file: right, want: "SCHEMA_EMPTY"},
		"in PGPASSWORD":     {url: open, env: [2]string{"PGPASSWORD", pgserver.Password}, want: "SCHEMA_EMPTY"},
		"in PGPASSFILE":     {url: open, env: [2]string{"PGPASSFILE", passfile}, want: "SCHEMA_EMPTY"},
		"none":              {url: open, want: "DATABASE_PASSWORD_REFUSED"},
		"wrong in the URL":  {url: strings.Replace(server.URL("postgres"), pgserver.Password, "s3cret", 1), want: "DATABASE_PASSWORD_REFUSED"},
		"wrong in a file":   {url: open, file: wrong, want: "DATABASE_PASSWORD_REFUSED"},
		"wrong in the env":  {url: open, env: [2]string{"PGPASSWORD", "s3cret"}, want: "DATABASE_PASSWORD_REFUSED"},
		"a file of all":     {url: open, file: file("open", "s3cret\n", 0o644), want: "chmod"},
		"a file of nothing": {url: open, file: file("empty", "\n", 0o600), want: "want one line"},
		"a file of lines":   {url: open, file: file("lines", "s3cret\ns3cret\n", 0o600), want: "want one line"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.env[0] != "" {
				t.Setenv(tt.env[0], tt.env[1])
			}
			_, err := Check(context.Background(), Data{Database: Database{URL: dsn.Parse(tt.url), PasswordFile: tt.file, Schema: "pawl"}})
			if !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("%v, want %s", err, tt.want)
			}
			for _, secret := range []string{pgserver.Password, "s3cret"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the password is told: %v", err)
				}
			}
		})
	}
}

// TestDatabaseOverTLS: a store is only used over a connection whose server proves its identity.
func TestDatabaseOverTLS(t *testing.T) {
	t.Parallel()
	server, ctx := pgserver.Start(t), context.Background()
	root, cert, key := authority(t)
	data := server.Query(t, "postgres", "SHOW data_directory")
	for name, text := range map[string][]byte{"server.crt": cert, "server.key": key} {
		server.Query(t, "postgres", "COPY (SELECT line FROM regexp_split_to_table('"+string(bytes.TrimSpace(text))+"', E'\n') AS line) TO PROGRAM 'umask 077; cat > "+filepath.Join(data, name)+"'")
	}
	server.Set(t, map[string]string{"ssl": "on"})
	stranger, _, _ := authority(t)
	url := strings.Replace(server.URL("postgres"), "sslmode=disable", "sslmode=verify-full&sslrootcert=", 1)
	at := func(url string) Data { return Data{Database: Database{URL: dsn.Parse(url), Schema: "pawl"}} }
	_, err := Check(ctx, at(url+stranger))
	if reasonOf(err) != preflight.NoTrust {
		t.Errorf("a server whose authority is another: %v", err)
	}
	_, err = Check(ctx, at(strings.Replace(url+root, "127.0.0.1", "localhost", 1)))
	if reasonOf(err) != preflight.NoTrust {
		t.Errorf("a server with another name: %v", err)
	}
	dir := copyGolden(t, store.FormatVersion)
	if done, err := Move(ctx, Data{Dir: dir}, at(url+root), func(string) {}); err != nil || done.Report.Runs != 7 {
		t.Fatalf("%+v, %v", done, err)
	}
	var log bytes.Buffer
	told := slog.New(slog.NewTextHandler(&log, nil))
	served := config.Config{AcceptLossOnFailover: true, Listen: "127.0.0.1:0"}
	opts, _, err := at(url+root).Database.openStandalone(served, told)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	if used := server.Query(t, "postgres", "SELECT count(*) > 1 AND bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'pawl'"); used != "t" {
		t.Error("there is a connection in the open")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if text := log.String(); !strings.Contains(text, "fsync is off") || strings.Contains(text, "not encrypted or not verified") || strings.Contains(text, pgserver.Password) {
		t.Errorf("told: %s", text)
	}
}

// TestAnOpenWayIsTold: the log names the host of a connection without TLS before anything is sent on it.
func TestAnOpenWayIsTold(t *testing.T) {
	t.Setenv("PGSSLMODE", "")
	var log bytes.Buffer
	d := Database{URL: dsn.Parse("postgres://pawl:s3cret@db.invalid/runs"), Schema: "pawl"}
	opts, _, err := d.openStandalone(config.Config{OTLPEndpoint: "http://127.0.0.1:1"}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	text := log.String()
	for _, want := range []string{"db.invalid", "sslmode=verify-full", "trace export position"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not told: %s", want, text)
		}
	}
	_, err = store.Open(opts)
	if reasonOf(err) != preflight.Unreachable || strings.Contains(err.Error()+text, "s3cret") {
		t.Errorf("%v", err)
	}
}

// TestSchemasOfOthers: the error names a schema of a newer program, a schema that is no store, and
// a store whose newest commits are damaged. They stay as they are.
func TestSchemasOfOthers(t *testing.T) {
	t.Parallel()
	server, ctx := pgserver.Start(t), context.Background()
	at := func(schema string) Data {
		return Data{Database: Database{URL: dsn.Parse(server.URL("postgres")), Schema: schema}}
	}
	dir := copyGolden(t, store.FormatVersion)
	for _, schema := range []string{"newer", "damaged", "begun"} {
		if _, err := Move(ctx, Data{Dir: dir}, at(schema), func(string) {}); err != nil {
			t.Fatal(err)
		}
	}
	server.Query(t, "postgres", "INSERT INTO newer.schema_version (version_id, is_applied) VALUES (99, true); UPDATE newer.schema_oldest SET version = 99")
	if _, err := Check(ctx, at("newer")); reasonOf(err) != preflight.SchemaNewer || !strings.Contains(err.Error(), "version 99") {
		t.Errorf("a newer one: %v", err)
	}
	// A process was killed while it made its tables. The next one continues there.
	server.Query(t, "postgres", "DROP TABLE begun.part, begun.hot, begun.cold, begun.run_keys, begun.node, begun.namespace, begun.schema_oldest; DELETE FROM begun.schema_version WHERE version_id > 0")
	if _, err := Check(ctx, at("begun")); reasonOf(err) != preflight.SchemaNone {
		t.Errorf("one that was begun: %v", err)
	}
	if done, err := Move(ctx, Data{Dir: dir}, at("begun"), func(string) {}); err != nil || done.Report.Runs != 7 {
		t.Errorf("one that was begun: %+v, %v", done, err)
	}
	server.Query(t, "postgres", "CREATE SCHEMA other; CREATE TABLE other.hot (id int); CREATE VIEW other.v AS SELECT 1")
	if _, err := Move(ctx, Data{Dir: dir}, at("other"), func(string) {}); reasonOf(err) != preflight.SchemaOther {
		t.Errorf("of something else: %v", err)
	}
	if left := server.Query(t, "postgres", "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname = 'other'"); left != "2" {
		t.Errorf("it has %s tables now", left)
	}
	server.Query(t, "postgres", "UPDATE damaged.hot SET v = substr(v, 1, length(v) - 1); UPDATE damaged.cold SET v = substr(v, 1, length(v) - 1)")
	_, err := Check(ctx, at("damaged"))
	if _, faulty := errors.AsType[*CheckFault](err); err == nil || !faulty && !errors.Is(err, ErrUnusable) {
		t.Errorf("a damaged one: %v", err)
	}
}

// authority makes one, in a file, and the certificate of a server at 127.0.0.1 with its key.
func authority(t *testing.T) (root string, cert, key []byte) {
	t.Helper()
	newKey := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	ca, serverKey := newKey(), newKey()
	template := func(name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}
	}
	signer := template("authority")
	signer.IsCA, signer.BasicConstraintsValid, signer.KeyUsage = true, true, x509.KeyUsageCertSign
	own := template("server")
	own.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	made := func(of *x509.Certificate, public any) []byte {
		der, err := x509.CreateCertificate(rand.Reader, of, signer, public, ca)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	root = filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(root, made(signer, &ca.PublicKey), 0o600); err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(serverKey)
	if err != nil {
		t.Fatal(err)
	}
	return root, made(own, &serverKey.PublicKey), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}
