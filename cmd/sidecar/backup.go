package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/cmd/sidecar/internal/command"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/server"
)

func newBackup(p *output.Printer) *cobra.Command {
	var data server.Data
	c, to := &command.Client{}, server.BackupTo{}
	cmd := &cobra.Command{
		Use:   "backup TO [--addr ADDR | --data DIR | --store URL]",
		Short: "Write a backup of a sidecar's store, or what is new since the last",
		Long: `Writes what the store of a running sidecar holds at this moment (--data, --store: that of a
data directory or a database that no sidecar has open) into a file in the directory TO: everything the
first time, then what is new since the last file there (--full: everything again). The
sidecar works on meanwhile. A file has a digest of all its bytes and names the one that it
follows on; one that is cut, changed or missing is refused. It has its name once it is
whole and on disk.

The file is NOT ENCRYPTED, also where the data directory is, and has everything, unless
--recipient names who may read it: age recipients (age1..., of age-keygen). The identity
stays where restores are made; who backs up needs none, and pawl restore --identity
proves the files. Each is a file of age as any other.

The values of runs that can be erased are not in it without their keys. With --data and --store
one copy of these (RUNKEYS) lies beside all backups and is written over by each: what was erased
before the last one stays erased. A running sidecar never hands out its keys: copy RUNKEYS
from its data directory then, behind each backup; a database's own backups have them.

With --store each partition of the database but the first has a directory of its own in TO,
partition-01 and so on, and one line is printed for each. Broken off, what has a name is whole:
call it again.

pawl restore TO --data NEW makes a data directory of it, --store URL a schema. A sidecar asks for the scope
store:read, and makes one backup at a time.

Exit codes: 0 done; 1 the directory or a backup is damaged, or the sidecar refused; 2 it
cannot be opened or reached.`,
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
	cmd.Flags().BoolVar(&to.Full, "full", false, "everything, though there are backups to follow on")
	cmd.Flags().StringSliceVar(&to.Recipients, "recipient", nil, "age recipient that the file is encrypted for; may be repeated")
	return cmd
}

// runBackup tells of each partition's as it is written, and as JSON of all at the end.
func runBackup(ctx context.Context, p *output.Printer, c *command.Client, data server.Data, to server.BackupTo) error {
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

func takeBackup(ctx context.Context, c *command.Client, data server.Data, to server.BackupTo, told func(server.BackupDone)) error {
	if data.Given() {
		return server.Backup(ctx, data, to, told)
	}
	return c.Store(func(store pawlv1.StoreServiceClient) error {
		parts, unserved, err := servedPartitions(ctx, store)
		// The owner of one may be dead, and the next one about to take it.
		for began := time.Now(); err == nil && len(unserved) > 0 && time.Since(began) < takenWithin; {
			select {
			case <-time.After(takenWithin / 10):
			case <-ctx.Done():
			}
			parts, unserved, err = servedPartitions(ctx, store)
		}
		if err != nil {
			return err
		}
		return server.BackupServed(ctx, parts, unserved, func(part int32) server.TakeBackup { return servedBackup(store, part) }, to, told)
	})
}

// takenWithin is how soon a partition has an owner again that somebody serves.
const takenWithin = 5 * time.Second

// servedPartitions are those with something that somebody serves, and the others.
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

// servedBackup is that of a partition of a running sidecar's store.
func servedBackup(store pawlv1.StoreServiceClient, part int32) server.TakeBackup {
	return func(ctx context.Context, after string, out io.Writer) error {
		stream, err := store.Backup(ctx, &pawlv1.BackupRequest{After: after, Partition: uint32(part)})
		if err != nil {
			return err
		}
		return copyBackup(stream, out)
	}
}

// copyBackup writes what a sidecar streams.
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

// backupsObject has that of the first partition, which was the last, and beside it those of the others.
func backupsObject(all []server.BackupDone) output.Object {
	first := len(all) - 1
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
		Short: "Make a data directory, or a schema of a database, of backups",
		Long: `Makes a data directory of the backups in the directory FROM: of the last that has
everything and all that follow on it, or up to --to FILE. NEW must be empty or absent; it
has its name only when everything in it was proven ('pawl check').

Backups that were encrypted for --recipient take --identity. With --encryption-key-file NEW
is an encrypted directory, also where the one that was backed up was not.

With --store it is made in a database, in the schema --store-schema, which has no store
yet: in a directory under TMPDIR first, in the clear, which goes again, and then in one
transaction. A process that is killed leaves that directory, and nothing in the schema or all.
Backups of several partitions (directories partition-01 and so on in FROM) are made partitions
again, of the newest backup of each: they go into a database only, without --to and --run-keys.

It is another store than the one that was backed up: what callers hold of that one's
cursors is refused (CURSOR_FOREIGN) instead of passing over records. Named consumers and
webhooks go on where they were when the backup was made. Never serve both.

Exit codes: 0 done; 1 a backup is cut, changed, missing or in the wrong order; 2 NEW is
not empty, the schema has a store, or the backups are of several partitions and NEW is a directory.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !data.Given() {
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
				return output.WriteJSON(p.Out, output.Object{{Key: "dir", Value: data.Where()}, {Key: "backups", Value: used}, {Key: "report", Value: reportObject(report)}})
			}
			p.Printf("%s: restored from %d backups\n", data.Where(), len(used))
			return printReport(p, report, nil)
		},
	}
	dataFlag(cmd, &data, "directory to make, empty or absent")
	storeFlag(cmd, &data)
	cmd.Flags().StringVar(&from.RunKeys, "run-keys", "", "file of the keys of erasable runs, the newest that there is; default RUNKEYS beside the backups")
	cmd.Flags().StringVar(&from.Identity, "identity", "", "file of the age identity that opens encrypted backups")
	cmd.Flags().StringVar(&from.UpTo, "to", "", "file of the last backup to take; default the newest")
	return cmd
}
