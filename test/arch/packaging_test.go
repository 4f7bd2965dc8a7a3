package arch

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestContainerIsBare: the image begins empty, runs nothing while it is built, holds no
// shell, and its process is not root.
func TestContainerIsBare(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string][]string{}
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		if word, rest, ok := strings.Cut(strings.TrimSpace(line), " "); ok && word != "#" {
			said[strings.ToUpper(word)] = append(said[strings.ToUpper(word)], strings.TrimSpace(rest))
		}
	}
	if from := said["FROM"]; len(from) != 1 || from[0] != "scratch" {
		t.Errorf("FROM %v, want one: scratch", from)
	}
	for _, word := range []string{"RUN", "ADD", "SHELL", "ONBUILD"} {
		if len(said[word]) > 0 {
			t.Errorf("%s %v", word, said[word])
		}
	}
	for _, copied := range said["COPY"] {
		if !regexp.MustCompile(`^(--chown=65532:65532 )?dist/\S+ /\S+$`).MatchString(copied) {
			t.Errorf("COPY %s: want files of dist", copied)
		}
	}
	if user := said["USER"]; len(user) != 1 || !regexp.MustCompile(`^[1-9][0-9]+:[1-9][0-9]+$`).MatchString(user[0]) {
		t.Errorf("USER %v, want numbers other than 0, which need no file of names", user)
	}
	for _, word := range []string{"ENTRYPOINT", "CMD"} {
		if form := said[word]; len(form) != 1 || !strings.HasPrefix(form[0], "[") {
			t.Errorf("%s %v, want a list: there is no shell", word, form)
		}
	}
	if health := said["HEALTHCHECK"]; len(health) != 1 || !strings.Contains(health[0], "CMD [") {
		t.Errorf("HEALTHCHECK %v, want a list", health)
	}
}

// TestUnitIsSandboxed: what the service may not do is said in its unit, and that it starts again for ever, also where no
// systemd-analyze can weigh it (.ci/test-deploy).
func TestUnitIsSandboxed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/systemd/pawl.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"User=pawl", "ProtectSystem=strict", "ProtectHome=yes", "NoNewPrivileges=yes", "CapabilityBoundingSet=", "PrivateDevices=yes",
		// It tries again for ever: a database may come up minutes after it. Docs name the same settings and store.
		"StartLimitIntervalSec=0", "Restart=always", "ExecStart=/usr/local/bin/pawl serve --config /etc/pawl/config.yaml --data /var/lib/pawl/store",
		"RestrictNamespaces=yes", "MemoryDenyWriteExecute=yes", "SystemCallFilter=@system-service", "IPAddressDeny=any", "UMask=0077",
	} {
		if !strings.Contains(string(text), "\n"+line+"\n") {
			t.Errorf("the unit lacks %s", line)
		}
	}
}
