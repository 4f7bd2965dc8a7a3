package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/server"
)

func newBackup(p *output.Printer, children ...*cobra.Command) *cobra.Command {
	var data server.Data
	c, to := &client{}, server.BackupTo{}
	cmd := &cobra.Command{
		Use:   "backup TO [--addr ADDR | --data DIR | --store URL]",
		Short: "Back up a store, in full or since the last backup",
		Long: `Writes a backup of the store into a file in the directory TO. The store is that of the running
sidecar at --addr, or with --data or --store one that no sidecar has open. The first backup in TO is a
full one. Each later one has only the changes; with --full it is a full one. The sidecar continues to serve.
Each file has a digest of its bytes and the name of the previous file. A restore refuses a file that
is cut, changed or missing. A file gets its name when it is complete and synced.

A backup contains everything and is NOT ENCRYPTED, even if the data directory is. To encrypt it, set
--recipient to age recipients (age1..., of age-keygen). The backup needs no identity; pawl restore
--identity reads the file. It is an ordinary age file.

The keys of erasable runs are not in the backup. With --data and --store, one copy of them (RUNKEYS)
is beside the backups, and each backup replaces it. So no backup restores values that were erased before the
last backup. A running sidecar does not send these keys: copy RUNKEYS from its data directory after each
backup. A database has the keys in its own backups.

With --store, each partition of the database except the first gets a directory in TO, partition-01
and so on, and the command prints one line for each. You can repeat an interrupted backup. Files with
a name are complete.

Prove backups with pawl backup verify. Restore with pawl restore TO --data NEW or --store URL. A sidecar
requires the scope store:read and makes one backup at a time.

Exit codes: 0 done; 1 the store or a backup is damaged, or the sidecar refused; 2 the store cannot be
opened, there is no connection to it, or the disk is full.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			to.Dir = args[0]
			if err := exclusive(cmd, "data", "store", "addr"); err != nil {
				return err
			}
			err := runBackup(cmd.Context(), p, c, data, to)
			if errors.Is(err, server.ErrUnusable) {
				return output.Usage(err)
			}
			return err
		},
	}
	dataOrTarget(cmd, &data, c)
	cmd.Flags().BoolVar(&to.Full, "full", false, "write a full backup even if there are earlier ones")
	cmd.Flags().StringSliceVar(&to.Recipients, "recipient", nil, "age recipient that can decrypt the backup (repeatable)")
	cmd.AddCommand(children...)
	return cmd
}

// runBackup prints a line for each partition when its backup is written. With JSON output it prints one object about
// all backups at the end. If a backup fails, it prints on standard error which backups are whole instead.
func runBackup(ctx context.Context, p *output.Printer, c *client, data server.Data, to server.BackupTo) error {
	var all []server.BackupDone
	err := takeBackup(ctx, c, data, to, func(done server.BackupDone) {
		if all = append(all, done); len(to.Recipients) == 0 {
			p.Warnf("%s is not encrypted and has everything: keep it as safe as the sidecar's data, or give --recipient", done.File)
		}
		if !p.JSON {
			printBackup(p, done)
		}
	})
	switch {
	case !p.JSON:
		return err
	case err == nil:
		return output.WriteJSON(p.Out, backupsObject(all))
	}
	for _, done := range all {
		p.Warnf("%s%s is whole", ofPart(done.Part), done.File)
	}
	return err
}

func takeBackup(ctx context.Context, c *client, data server.Data, to server.BackupTo, told func(server.BackupDone)) error {
	if data.IsSet() {
		return server.Backup(ctx, data, to, told)
	}
	return c.Store(func(store pawlv1.StoreServiceClient) error {
		parts, unserved, err := servedPartitions(ctx, store)
		// If the node that owned a partition has died, another node takes the partition over soon. The loop waits for
		// this.
		for began := time.Now(); err == nil && len(unserved) > 0 && time.Since(began) < takenWithin; {
			select {
			case <-time.After(takenWithin / 10):
			case <-ctx.Done(): // the next call returns the error
			}
			parts, unserved, err = servedPartitions(ctx, store)
		}
		if err != nil {
			return err
		}
		return server.BackupServed(ctx, parts, unserved, func(part int32) server.TakeBackup { return servedBackup(store, part) }, to, told)
	})
}

// takenWithin is how long a backup waits until partitions without an owner have a new one.
const takenWithin = 5 * time.Second

// servedPartitions returns the partitions that have an owner (a node that serves them) or a served namespace.
// unserved are the other partitions.
func servedPartitions(ctx context.Context, store pawlv1.StoreServiceClient) (parts, unserved []int32, err error) {
	all, err := store.ListPartitions(ctx, &pawlv1.ListPartitionsRequest{})
	for _, one := range all.GetPartitions() {
		if served := len(one.GetNamespaces()) > 0 || one.GetOwner() != ""; served {
			parts = append(parts, int32(one.GetNumber()))
		} else {
			unserved = append(unserved, int32(one.GetNumber()))
		}
	}
	return parts, unserved, err
}

// servedBackup returns a function that backs up one partition of a running sidecar's store.
func servedBackup(store pawlv1.StoreServiceClient, part int32) server.TakeBackup {
	return func(ctx context.Context, after string, out io.Writer) error {
		stream, err := store.Backup(ctx, &pawlv1.BackupRequest{After: after, Partition: uint32(part)})
		if err != nil {
			return err
		}
		return copyBackup(stream, out)
	}
}

// copyBackup writes the backup that a sidecar streams.
func copyBackup(stream grpc.ServerStreamingClient[pawlv1.BackupResponse], out io.Writer) error {
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := out.Write(piece.GetData()); err != nil {
			return err
		}
	}
}

func backupObject(done server.BackupDone) output.Object {
	return output.Object{{Key: "file", Value: done.File}, {Key: "follows", Value: done.BasedOn}, {Key: "bytes", Value: done.Bytes}, {Key: "run_keys", Value: done.RunKeys}}
}

// backupsObject returns the JSON object about the backups of all partitions. It has the fields of the backup of the
// first partition, and a list of the other backups.
func backupsObject(all []server.BackupDone) output.Object {
	first := len(all) - 1 // the first partition is backed up last
	object, others := backupObject(all[first]), []any{}
	for _, done := range all[:first] {
		others = append(others, append(output.Object{{Key: "partition", Value: done.Part}}, backupObject(done)...))
	}
	return append(object, output.Object{{Key: "partitions", Value: others}}...)
}

func printBackup(p *output.Printer, done server.BackupDone) {
	what := "everything"
	if done.BasedOn != "" {
		what = "what is new since " + done.BasedOn
	}
	p.Printf("%s%s: %s, %d bytes\n", ofPart(done.Part), done.File, what, done.Bytes)
	if done.RunKeys {
		p.Printf("RUNKEYS beside it is the one copy of the keys of erasable runs, as of now\n")
	}
}

func newRestore(p *output.Printer) *cobra.Command {
	var data server.Data
	var from server.RestoreFrom
	cmd := &cobra.Command{
		Use:   "restore FROM --data NEW | restore FROM --store URL",
		Short: "Restore backups into a new data directory or database schema",
		Long: `Restores the last full backup in the directory FROM and all backups that follow it, up to the newest
or to --to FILE. NEW must be empty or absent. It gets its name after 'pawl check' has passed.

Encrypted backups need --identity. With --encryption-key-file NEW is encrypted, even if the original
store was not.

With --store, the command restores into the schema --store-schema, which must have no store. It first
restores, unencrypted, into a directory under TMPDIR, copies that in one transaction and removes it. A killed
process leaves that directory, and the complete store or nothing in the schema. Backups of several
partitions (directories partition-01 and so on in FROM) can only go into a database, each from its newest
backup, without --to and --run-keys.

The result is a different store from the original one. It refuses cursors of the original
(CURSOR_FOREIGN), because records could be missing between them. Named consumers and webhooks continue at
their position in the backup. Never serve both stores.

Exit codes: 0 done; 1 a backup is cut, changed, missing or out of order; 2 NEW is not empty, the
schema has a store, the backups are of several partitions and NEW is a directory, or the disk is full.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !data.IsSet() {
				return output.Usage(errors.New("--data or --store is required: what to make"))
			}
			if err := exclusive(cmd, "data", "store"); err != nil {
				return err
			}
			from.Dir = args[0]
			report, used, err := server.Restore(cmd.Context(), from, data)
			if errors.Is(err, server.ErrUnusable) {
				return output.Usage(err)
			}
			if err != nil {
				return err
			}
			if p.JSON {
				return output.WriteJSON(p.Out, output.Object{{Key: "dir", Value: data.Location()}, {Key: "backups", Value: used}, {Key: "report", Value: reportObject(report)}})
			}
			p.Printf("%s: restored from %d backups\n", data.Location(), len(used))
			return printReport(p, report, nil)
		},
	}
	dataFlag(cmd, &data, "directory to create, empty or absent")
	storeFlag(cmd, &data)
	restoreFlags(cmd, &from)
	cmd.Flags().StringVar(&from.UpTo, "to", "", "file of the last backup to restore (default: the newest)")
	return cmd
}

// restoreFlags adds the flags that are needed to read backups.
func restoreFlags(cmd *cobra.Command, from *server.RestoreFrom) {
	cmd.Flags().StringVar(&from.RunKeys, "run-keys", "", "file with the newest keys of erasable runs (default: RUNKEYS beside the backups)")
	cmd.Flags().StringVar(&from.Identity, "identity", "", "file with the age identity that decrypts the backups")
}
