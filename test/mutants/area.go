package main

// area is a package whose guards are taken out, and what runs against each mutant.
type area struct {
	// dir is the package, from the module's root.
	dir string
	// files are the only ones that are looked at; nil: all of the package.
	files []string
	// tests are the packages that should notice, tried in this order until one does.
	tests []string
	// run is the pattern of the tests that run; "" = all.
	run string
	// postgres means that the tests need PostgreSQL.
	postgres bool
}

const rulesDir = "internal/runtime/machine/rules"

// areas are the parts that keep what Pawl promises: bounds and order of a run, approvals, money, effects, and
// the owner of a partition.
var areas = []area{
	{dir: rulesDir, tests: []string{rulesDir}},
	{dir: "internal/runtime/approval", tests: []string{"internal/runtime/approval", "internal/runtime", "internal/grpcapi", "internal/a2a"}},
	{dir: "internal/runtime/budget", tests: []string{"internal/runtime/budget", rulesDir, "internal/store"}},
	{dir: "internal/runtime/effects", tests: []string{"internal/runtime/effects", "internal/runtime"}},
	{dir: "internal/policy", tests: []string{"internal/policy", "internal/runtime", "internal/grpcapi"}},
	{dir: "internal/store/fencing", tests: []string{"internal/store/fencing"}},
	{dir: "internal/cluster/router", tests: []string{"internal/cluster/router", "internal/cluster/transport"}},
	{dir: "internal/store/pg", files: []string{"view.go", "keys.go", "server.go"}, tests: []string{"internal/store/pg"}, postgres: true},
}

// text is a mutant of a text that is no Go: old stands once in the file and is replaced.
type text struct{ file, name, old, with string }

const (
	partSQL    = "internal/store/pg/statements.go"
	membersSQL = "internal/store/pg/members/statements.go"
	starters   = "internal/runtime/approval/prepare.go"
)

// texts are the guards of the statements that fence a partition, and the walk from a child to its parents that
// says which principals started a run.
var texts = []text{
	{starters, "starters: the parents'", "!ok || start.Parent == nil || start.Parent.Origin != \"\" {", "!ok || start.RunID != \"\" {"},
	{partSQL, "commit: owner", "WHERE id = $1 AND owner = $2 AND epoch = $3 AND commit_no = $4 - 1 RETURNING", "WHERE id = $1 AND $2::text IS NOT NULL AND epoch = $3 AND commit_no = $4 - 1 RETURNING"},
	{partSQL, "commit: epoch", "WHERE id = $1 AND owner = $2 AND epoch = $3 AND commit_no = $4 - 1 RETURNING", "WHERE id = $1 AND owner = $2 AND $3::bigint IS NOT NULL AND commit_no = $4 - 1 RETURNING"},
	{partSQL, "commit: number", "WHERE id = $1 AND owner = $2 AND epoch = $3 AND commit_no = $4 - 1 RETURNING", "WHERE id = $1 AND owner = $2 AND epoch = $3 RETURNING"},
	{partSQL, "renewal: owner", "WHERE id = $1 AND owner = $2 AND epoch = $3 AND commit_no = $4 RETURNING", "WHERE id = $1 AND $2::text IS NOT NULL AND epoch = $3 AND commit_no = $4 RETURNING"},
	{partSQL, "renewal: epoch", "WHERE id = $1 AND owner = $2 AND epoch = $3 AND commit_no = $4 RETURNING", "WHERE id = $1 AND owner = $2 AND $3::bigint IS NOT NULL AND commit_no = $4 RETURNING"},
	{partSQL, "release: owner", "address = '' WHERE id = $1 AND owner = $2 AND epoch = $3`", "address = '' WHERE id = $1 AND $2::text IS NOT NULL AND epoch = $3`"},
	{partSQL, "release: epoch", "address = '' WHERE id = $1 AND owner = $2 AND epoch = $3`", "address = '' WHERE id = $1 AND owner = $2 AND $3::bigint IS NOT NULL`"},
	{partSQL, "take: lease", "(NOT $5::bool AND lease_until <= now())", "(NOT $5::bool)"},
	{partSQL, "take: again", "(NOT $5::bool AND lease_until <= now())", "($5::bool IS NOT NULL AND lease_until <= now())"},
	{partSQL, "take: format", "WHERE id = $1 AND format BETWEEN $6::integer AND $7::integer AND (owner", "WHERE id = $1 AND $6::integer IS NOT NULL AND (owner"},
	{partSQL, "blame: owner or lease", "AND (p.owner = $2 OR p.lease_until <= clock_timestamp())", "AND $2::text IS NOT NULL"},
	{partSQL, "keys of runs: owner", "SELECT id FROM {s}.part WHERE id = $1 AND owner = $2 FOR UPDATE", "SELECT id FROM {s}.part WHERE id = $1 AND $2::text IS NOT NULL FOR UPDATE"},
	{partSQL, "keys of runs: what was read", "AND r.page = u.page AND r.bytes = u.old RETURNING", "AND r.page = u.page AND u.old IS NOT NULL RETURNING"},
	{partSQL, "warnings", "SELECT pg_catalog.set_config('client_min_messages', 'warning', true) FROM fence`\n)", "SELECT 1 FROM fence`\n)"},
	{membersSQL, "beat: owner", "split_part(p.owner, '.', 1) = $1 AND p.lease_until <", "p.lease_until <"},
	{membersSQL, "beat: epoch", "\n\t\tAND (p.id, p.epoch) IN (SELECT * FROM unnest($7::integer[], $8::bigint[]))", "\n\t\tAND p.id IN (SELECT u.a FROM unnest($7::integer[], $8::bigint[]) AS u (a, b))"},
	{membersSQL, "beat: clock", "WHERE lease_until > now AND lease_until < now + lease * 2 AND id <> $1", "WHERE lease_until > now AND id <> $1"},
}
