package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// examples are the examples in the help of the commands, by command path without "pawl". One call is
// on each line.
var examples = map[string]string{ //nolint:gosec // "token" is the name of a command; no value is a secret.
	"approvals approve": `pawl approvals approve 01J9Z3NDEK 4 --expires 10m --reason "checked with finance"`,
	"approvals deny":    `pawl approvals deny 01J9Z3NDEK 4 --reason "amount too high"`,
	"approvals edit":    `pawl approvals edit 01J9Z3NDEK 4 '{"amount": 20}'`,
	"approvals list":    `pawl approvals list --oldest`,
	"approvals show":    `pawl approvals show 01J9Z3NDEK 4`,
	"approvals history": `pawl approvals history --from 24h --decision DENIED,TIMED_OUT`,
	"audit export":      `pawl audit export /var/lib/pawl/audit --run 01KE3Y1V1RSX46PK6M20MV9FEG --from 24h`,
	"audit verify":      `pawl audit verify /var/lib/pawl/audit --key /etc/pawl/audit.key`,
	"backup": `pawl backup /backup/pawl
pawl backup /backup/pawl --full --recipient age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p`,
	"backup prune":         `pawl backup prune /backup/pawl --keep 30 --dry-run`,
	"backup verify":        `pawl backup verify /backup/pawl --restore`,
	"budgets":              `pawl budgets --name tenant=acme/`,
	"check":                "pawl check --data /var/lib/pawl/store\npawl check --online",
	"codegen":              `pawl codegen --lang python --out pack_types.py shop.pack.yaml`,
	"salvage":              `pawl salvage /var/lib/pawl/damaged --data /var/lib/pawl/store`,
	"compact":              `pawl compact /var/lib/pawl/store`,
	"deliveries consumers": `pawl deliveries consumers -o json`,
	"deliveries dead":      `pawl deliveries dead webhook/orders --body`,
	"deliveries discard":   `pawl deliveries discard webhook/orders 12`,
	"deliveries list":      `pawl deliveries list --troubled`,
	"deliveries resend":    `pawl deliveries resend webhook/orders --all`,
	"demo":                 `pawl demo`,
	"demo codegen":         `pawl demo codegen --keep`,
	"evals list":           "pawl evals list help.pack.yaml",
	"evals results":        "pawl evals results --pack help --junit evals.xml\npawl evals results 01J9Z3NDEK --failed -o json",
	"graph":                "pawl graph shop.pack.yaml --format svg > shop.svg\npawl graph --run 01J9Z3NDEK",
	"config check":         `pawl config check --config pawl.yaml`,
	"health":               `pawl health --addr 127.0.0.1:7291 --timeout 1s`,
	"limits":               `pawl limits`,
	"workers list":         `pawl workers list -o json`,
	"workers show":         `pawl workers show mailer-1`,
	"migrate": `pawl migrate /var/lib/pawl/store
pawl migrate --from /var/lib/pawl/store --to postgres://pawl@db.example/pawl --store-password-file /etc/pawl/db.password`,
	"packs diff":        "pawl packs diff shop@1.0.0 shop.pack.yaml\npawl packs diff old.pack.yaml new.pack.yaml -o json",
	"packs fmt":         "pawl packs fmt --write shop.pack.yaml\npawl packs fmt --check *.pack.yaml",
	"packs list":        `pawl packs list`,
	"packs register":    `pawl packs register shop.pack.yaml --require-bounded`,
	"packs show":        `pawl packs show shop@1.2.0`,
	"partitions":        `pawl partitions`,
	"partitions split":  `pawl partitions split --store postgres://pawl@db.example/pawl`,
	"restore":           `pawl restore /backup/pawl --data /var/lib/pawl-restored`,
	"rotate-key":        `pawl rotate-key --data /var/lib/pawl/store --encryption-key-file /etc/pawl/old.key --new-key-file /etc/pawl/new.key`,
	"runs cancel":       `pawl runs cancel 01J9Z3NDEK --note "duplicate order"`,
	"runs delete":       `pawl runs delete --status FAILED,CANCELLED --ended-before 720h --yes`,
	"runs diff":         "pawl runs diff 01J9Z3NDEK:12 :20\npawl runs diff 01J9Z3NDEK 01J9Z4QWER",
	"runs emit":         `pawl runs emit 01J9Z3NDEK Approved --artifact note="looks good" --id decision-17`,
	"runs erase":        `pawl runs erase 01J9Z3NDEK --reason "request of the customer"`,
	"runs export":       "pawl runs export 01J9Z3NDEK ./workspace\npawl runs export 01J9Z3NDEK run.pawl --format file",
	"runs fork":         `pawl runs fork 01J9Z3NDEK --at 42 --var model=large`,
	"runs import":       `pawl runs import run.pawl`,
	"runs input":        `pawl runs input 01J9Z3NDEK "Use the blue one."`,
	"runs list":         "pawl runs list --status RUNNING,WAITING --label team=a --created-after 24h\npawl runs list --created-after 24h --limit 0 --sort cost",
	"runs pause":        `pawl runs pause --pack shop --note "provider outage" --yes`,
	"runs raise-budget": `pawl runs raise-budget 01J9Z3NDEK --cost 5 --reason "long report"`,
	"runs resume":       `pawl runs resume 01J9Z3NDEK`,
	"runs show":         `pawl runs show 01J9Z3NDEK --at 42`,
	"runs steer":        `pawl runs steer 01J9Z3NDEK "Skip the tests." --when now`,
	"runs stop":         `pawl runs stop 01J9Z3NDEK`,
	"runs trace":        `pawl runs trace 01J9Z3NDEK --watch --diff`,
	"runs verify":       "pawl runs verify 01J9Z3NDEK\npawl runs verify --data /var/lib/pawl/store",
	"runs wait":         `pawl runs wait 01J9Z3NDEK --until WAITING --timeout 5m`,
	"runs watch":        `pawl runs watch --label team=a --kind TRANSITION,ENDED -o json`,
	"schedules":         `pawl schedules`,
	"schema":            `pawl schema > promptpack.schema.json`,
	"serve":             `pawl serve --data /var/lib/pawl/store --pack shop.pack.yaml --allow-tool charge`,
	"stats":             `pawl stats --data /var/lib/pawl/store`,
	"token hash":        `pawl token hash /etc/pawl/tokens`,
	"tools call":        `pawl tools call bank/charge '{"order": "17"}' --config pawl.yaml`,
	"tools diff":        `pawl tools diff payments.pack.yaml --config pawl.yaml`,
	"tools list":        `pawl tools list --config pawl.yaml`,
	"tools pin":         `pawl tools pin payments.pack.yaml --config pawl.yaml`,
	"usage":             `pawl usage --from 168h --by day,model`,
	"validate":          `pawl validate --require-bounded shop.pack.yaml`,
	"version":           `pawl version -o json`,
}

// addExamples sets the examples of all commands below cmd. It does not change a command that already has an Example.
func addExamples(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		addExamples(child)
		_, name, _ := strings.Cut(child.CommandPath(), " ")
		if text := examples[name]; text != "" && child.Example == "" {
			child.Example = "  " + strings.ReplaceAll(text, "\n", "\n  ")
		}
	}
}
