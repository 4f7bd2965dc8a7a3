package deploy

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// reference is a reference to a variable in an argument or a value, as Kubernetes expands it.
var reference = regexp.MustCompile(`\$\(([A-Z_]+)\)`)

// expand expands the references to variables in a text. An unknown one stays, as in Kubernetes.
func expand(text string, env map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		if value, known := env[found[2:len(found)-1]]; known {
			return value
		}
		return found
	})
}

// check collects what would break a deployment.
type check struct {
	objects

	image  map[string]string
	faults []string
}

func (c *check) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// faultsOf returns what would break a deployment by these objects, or make it less safe.
func faultsOf(all objects, image map[string]string) []string {
	c := &check{objects: all, image: image}
	for _, w := range all.workloads {
		c.secure(w)
		c.references(w)
		if w.set != nil {
			c.statefulSet(w)
		}
		for i, one := range w.containers() {
			if one.Image == "pawl" || strings.HasPrefix(one.Image, "pawl:") {
				c.pawl(w, one, i < len(w.pod.InitContainers))
			}
		}
	}
	for _, service := range all.services {
		c.service(service)
	}
	for _, policy := range all.policies {
		c.policy(policy)
	}
	c.budgetsAndPolicies()
	return c.faults
}

// secure checks the pod against the level "restricted" of Kubernetes, and what that level leaves out.
func (c *check) secure(w workload) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		c.fault("%v", err)
		return
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(level, &w.meta, &w.pod) {
		if !result.Allowed {
			c.fault("%s is not restricted: %s: %s", w.name, result.ForbiddenReason, result.ForbiddenDetail)
		}
	}
	if mounts := w.pod.AutomountServiceAccountToken; mounts == nil || *mounts {
		c.fault("%s gets a token of the API server", w.name)
	}
	for _, one := range w.containers() {
		if s := one.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
			c.fault("%s: the root of container %s can be written", w.name, one.Name)
		}
		if one.Resources.Requests.Cpu().IsZero() || one.Resources.Requests.Memory().IsZero() || one.Resources.Limits.Memory().IsZero() {
			c.fault("%s: container %s has no requests, or no limit of its memory", w.name, one.Name)
		}
		if _, version, _ := strings.Cut(one.Image, ":"); version == "" || version == "latest" {
			c.fault("%s: the image %q names no version", w.name, one.Image)
		}
	}
}

// references checks that what the pod refers to exists: volumes, config maps and their keys, the service account.
func (c *check) references(w workload) {
	volumes := map[string]bool{}
	if w.set != nil {
		for _, claim := range w.set.Spec.VolumeClaimTemplates {
			volumes[claim.Name] = true
		}
	}
	for _, v := range w.pod.Volumes {
		volumes[v.Name] = true
		if v.ConfigMap == nil {
			continue
		}
		from := c.configMaps[v.ConfigMap.Name]
		if from == nil {
			c.fault("%s: there is no ConfigMap %s", w.name, v.ConfigMap.Name)
			continue
		}
		for _, item := range v.ConfigMap.Items {
			if _, there := from.Data[item.Key]; !there {
				c.fault("%s: the ConfigMap %s has no %s", w.name, from.Name, item.Key)
			}
		}
	}
	for _, one := range w.containers() {
		for _, mount := range one.VolumeMounts {
			if !volumes[mount.Name] {
				c.fault("%s: there is no volume %s", w.name, mount.Name)
			}
		}
	}
	if account := w.pod.ServiceAccountName; account != "" && !c.accounts[account] {
		c.fault("%s: there is no ServiceAccount %s", w.name, account)
	}
}

// statefulSet checks that the set selects its own pods, that its Service is headless and selects them too, and
// that a single replica restarts with the old volume only.
func (c *check) statefulSet(w workload) {
	own, err := c.selected(w.set.Spec.Selector)
	if err != nil || len(own) != 1 || own[0].name != w.name {
		c.fault("%s does not select its own pods: %v", w.name, err)
	}
	at := slices.IndexFunc(c.services, func(s *corev1.Service) bool { return s.Name == w.set.Spec.ServiceName })
	if at < 0 || c.services[at].Spec.ClusterIP != corev1.ClusterIPNone || !c.services[at].Spec.PublishNotReadyAddresses {
		c.fault("%s: there is no headless Service %s that has the pods which are not ready", w.name, w.set.Spec.ServiceName)
	}
}

// service checks that a Service selects pods, and that their containers have its ports.
func (c *check) service(s *corev1.Service) {
	selected, err := c.selected(&metav1.LabelSelector{MatchLabels: s.Spec.Selector})
	if err != nil || len(selected) == 0 || len(s.Spec.Selector) == 0 {
		c.fault("Service %s selects no pod: %v", s.Name, err)
	}
	for _, w := range selected {
		for _, port := range s.Spec.Ports {
			if !hasPort(w, port.TargetPort) {
				c.fault("Service %s: no container has the port %s", s.Name, port.TargetPort.String())
			}
			if !c.admitted(w, port.TargetPort) {
				c.fault("Service %s: no NetworkPolicy admits connections to the port %s", s.Name, port.TargetPort.String())
			}
		}
	}
}

// hasPort reports whether a container of the pod has a port, by its name or number.
func hasPort(w workload, port intstr.IntOrString) bool {
	return slices.ContainsFunc(w.containers(), func(one corev1.Container) bool {
		return slices.ContainsFunc(one.Ports, func(p corev1.ContainerPort) bool {
			return port.Type == intstr.String && p.Name == port.StrVal || port.Type == intstr.Int && p.ContainerPort == port.IntVal
		})
	})
}

// admitted reports whether a policy admits connections to a port of the pod.
func (c *check) admitted(w workload, port intstr.IntOrString) bool {
	return slices.ContainsFunc(c.policies, func(p *networkingv1.NetworkPolicy) bool {
		matches, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
		return err == nil && matches.Matches(w.labels) && slices.ContainsFunc(p.Spec.Ingress, func(rule networkingv1.NetworkPolicyIngressRule) bool {
			return slices.ContainsFunc(rule.Ports, func(open networkingv1.NetworkPolicyPort) bool { return open.Port != nil && *open.Port == port })
		})
	})
}

// policy checks that a policy selects pods, that their containers have the ports that it admits, and that the pods
// of this namespace that it names exist and have the ports.
func (c *check) policy(p *networkingv1.NetworkPolicy) {
	selected, err := c.selected(&p.Spec.PodSelector)
	if err != nil || len(selected) == 0 || len(p.Spec.PodSelector.MatchLabels) == 0 {
		c.fault("NetworkPolicy %s selects no pod by labels: %v", p.Name, err)
	}
	if len(p.Spec.Egress) > 0 != slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) || !slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
		c.fault("NetworkPolicy %s: its rules are not of the types %v", p.Name, p.Spec.PolicyTypes)
	}
	for _, rule := range p.Spec.Ingress {
		c.peers(p.Name, rule.From)
		if len(rule.Ports) == 0 || len(rule.From) == 0 {
			c.fault("NetworkPolicy %s admits all ports or all sources", p.Name)
		}
		for _, port := range rule.Ports {
			for _, w := range selected {
				if port.Port == nil || !hasPort(w, *port.Port) {
					c.fault("NetworkPolicy %s: no container of %s has the port %v", p.Name, w.name, port.Port)
				}
			}
		}
	}
	for _, rule := range p.Spec.Egress {
		for _, w := range c.peers(p.Name, rule.To) {
			for _, port := range rule.Ports {
				if port.Port == nil || !hasPort(w, *port.Port) {
					c.fault("NetworkPolicy %s: no container of %s has the port %v", p.Name, w.name, port.Port)
				}
			}
		}
	}
}

// peers returns the workloads that the peers of a rule select by labels in their own namespace. There must be one.
func (c *check) peers(name string, all []networkingv1.NetworkPolicyPeer) []workload {
	var found []workload
	for _, peer := range all {
		if peer.PodSelector == nil || peer.NamespaceSelector != nil || len(peer.PodSelector.MatchLabels) == 0 {
			continue
		}
		selected, err := c.selected(peer.PodSelector)
		if err != nil || len(selected) == 0 {
			c.fault("NetworkPolicy %s: no pod has the labels %v", name, peer.PodSelector.MatchLabels)
		}
		found = append(found, selected...)
	}
	return found
}

// budgetsAndPolicies checks that each StatefulSet has one disruption budget, which lets a node be drained, and one policy.
func (c *check) budgetsAndPolicies() {
	for _, w := range c.workloads {
		if w.set == nil {
			continue
		}
		budgets := 0
		for _, b := range c.budgets {
			selected, err := c.selected(b.Spec.Selector)
			if err != nil || len(selected) == 0 || len(b.Spec.Selector.MatchLabels) == 0 {
				c.fault("PodDisruptionBudget %s selects no pod by labels: %v", b.Name, err)
				continue
			}
			budgets++
			if b.Spec.MaxUnavailable == nil || b.Spec.MaxUnavailable.IntValue() != 1 || b.Spec.MinAvailable != nil {
				c.fault("PodDisruptionBudget %s blocks the drain of a node, or lets two pods go at once", b.Name)
			}
		}
		policies := 0
		for _, p := range c.policies {
			if matches, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector); err == nil && matches.Matches(w.labels) {
				policies++
			}
		}
		if budgets != 1 || policies != 1 {
			c.fault("%s has %d disruption budgets and %d network policies", w.name, budgets, policies)
		}
	}
}

// pawl checks a container of Pawl: the binary accepts its command line and environment, its probes ask where it
// listens, and its files are on volumes. beside says that it is a sidecar of an app.
func (c *check) pawl(w workload, one corev1.Container, beside bool) {
	env, err := c.variables(c.image, one)
	if err != nil {
		c.fault("%s: %v", w.name, err)
		return
	}
	var args []string
	for _, arg := range one.Args {
		args = append(args, expand(arg, env))
	}
	if slices.ContainsFunc(args, reference.MatchString) {
		c.fault("%s: %v refers to a variable that the container does not have", w.name, args)
	}
	if len(args) == 0 || args[0] != "serve" {
		if err := parses(args); err != nil {
			c.fault("%s: %v", w.name, err)
		}
		return
	}
	in, err := inEffect(args, env)
	if err != nil {
		c.fault("%s: %v", w.name, err)
		return
	}
	c.ports(w, one, in)
	c.probes(w, one, in)
	c.files(w, one, in)
	if drain, err := time.ParseDuration(in.DrainTimeout); err != nil || w.pod.TerminationGracePeriodSeconds == nil || time.Duration(*w.pod.TerminationGracePeriodSeconds)*time.Second < 2*drain {
		c.fault("%s: the sidecar is killed while calls in flight finish (--drain-timeout %s): %v", w.name, in.DrainTimeout, err)
	}
	if beside {
		c.beside(w, one, in)
	}
}

// loopback reports whether an address is on loopback.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && net.ParseIP(host).IsLoopback()
}

// ports checks that the container names the ports at which other pods reach the sidecar, and no other.
func (c *check) ports(w workload, one corev1.Container, in settings) {
	var want []string
	for _, address := range []string{in.Listen, in.PeerListen, in.HTTP, in.Metrics} {
		if address != "" && !loopback(address) {
			_, port, _ := net.SplitHostPort(address)
			want = append(want, port)
		}
	}
	var have []string
	for _, port := range one.Ports {
		have = append(have, strconv.Itoa(int(port.ContainerPort)))
	}
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(want, have) {
		c.fault("%s: the sidecar is reached at the ports %v, and the container names %v", w.name, want, have)
	}
	if in.InsecureBind {
		c.fault("%s: the sidecar serves callers without tokens", w.name)
	}
	if in.PeerListen != "" {
		_, port, _ := net.SplitHostPort(in.PeerListen)
		if want := fmt.Sprintf("metadata.name.%s.metadata.namespace.svc:%s", w.set.Spec.ServiceName, port); in.PeerAddress != want {
			c.fault("%s: other nodes reach it at %s, want %s", w.name, in.PeerAddress, want)
		}
	}
}

// probes checks that each probe reaches the sidecar: a command that the binary has, or the port of --listen if
// that is not on loopback.
func (c *check) probes(w workload, one corev1.Container, in settings) {
	for kind, probe := range map[string]*corev1.Probe{"startup": one.StartupProbe, "readiness": one.ReadinessProbe, "liveness": one.LivenessProbe} {
		if probe == nil {
			c.fault("%s: container %s has no %s probe", w.name, one.Name, kind)
			continue
		}
		_, port, _ := net.SplitHostPort(in.Listen)
		asked := ""
		switch {
		case probe.Exec != nil:
			if run := probe.Exec.Command; len(run) < 2 || run[0] != "/pawl" {
				c.fault("%s: the %s probe executes %v, and the image has only /pawl", w.name, kind, run)
			} else if err := parses(run[1:]); err != nil {
				c.fault("%s: %s probe: %v", w.name, kind, err)
			}
			continue
		case probe.GRPC != nil:
			asked = strconv.Itoa(int(probe.GRPC.Port))
		case probe.TCPSocket != nil:
			asked = probe.TCPSocket.Port.String()
			for _, named := range one.Ports {
				if named.Name == asked {
					asked = strconv.Itoa(int(named.ContainerPort))
				}
			}
		}
		if asked != port || loopback(in.Listen) {
			c.fault("%s: the %s probe asks the port %q, and the sidecar listens at %s", w.name, kind, asked, in.Listen)
		}
	}
	if p := one.StartupProbe; p != nil && p.PeriodSeconds*p.FailureThreshold < 60 {
		c.fault("%s: the sidecar has only %d s to start", w.name, p.PeriodSeconds*p.FailureThreshold)
	}
}

// files checks that the store and the files of the settings are on volumes of the container: the store on one
// that outlives the pod, a config map's file in the config map.
func (c *check) files(w workload, one corev1.Container, in settings) {
	if in.Data != "" == (in.Store != "") {
		c.fault("%s: the store is in the directory %q and in the database %q", w.name, in.Data, in.Store)
	}
	if claim := c.volumeOf(one, in.Data); in.Data != "" && !slices.ContainsFunc(w.set.Spec.VolumeClaimTemplates, func(v corev1.PersistentVolumeClaim) bool { return v.Name == claim }) {
		c.fault("%s: the store %s is not on a volume that outlives the pod", w.name, in.Data)
	}
	if c.volumeOf(one, "/tmp/file") == "" {
		c.fault("%s: there is no volume at /tmp, where imported runs are received", w.name)
	}
	named := append([]string{in.TokensFile, in.StorePasswordFile}, in.Pack...)
	if database, err := url.Parse(in.Store); err == nil {
		named = append(named, database.Query().Get("sslrootcert"))
	}
	for _, file := range named {
		at := slices.IndexFunc(w.pod.Volumes, func(v corev1.Volume) bool { return v.Name == c.volumeOf(one, file) })
		switch {
		case file == "":
		case at < 0:
			c.fault("%s: %s is on no volume", w.name, file)
		case w.pod.Volumes[at].ConfigMap != nil:
			from := c.configMaps[w.pod.Volumes[at].ConfigMap.Name]
			if from == nil {
				continue
			}
			if _, there := from.Data[path.Base(file)]; !there {
				c.fault("%s: the ConfigMap %s has no %s", w.name, from.Name, path.Base(file))
			}
		case w.pod.Volumes[at].Secret == nil || w.pod.Volumes[at].Secret.DefaultMode == nil || *w.pod.Volumes[at].Secret.DefaultMode&0o007 != 0:
			c.fault("%s: %s is in no Secret, or every user can read it", w.name, file)
		}
	}
}

// volumeOf is the name of the volume that has a file of the container.
func (*check) volumeOf(one corev1.Container, file string) string {
	for _, mount := range one.VolumeMounts {
		if strings.HasPrefix(file, mount.MountPath+"/") {
			return mount.Name
		}
	}
	return ""
}

// beside checks a native sidecar: it starts before the app and stops after it, and the app calls it where it listens,
// which other pods cannot reach.
func (c *check) beside(w workload, one corev1.Container, in settings) {
	if one.RestartPolicy == nil || *one.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		c.fault("%s: an init container without restartPolicy Always must end before the app starts", w.name)
	}
	if !loopback(in.Listen) {
		c.fault("%s: other pods reach the sidecar at %s", w.name, in.Listen)
	}
	for _, app := range w.pod.Containers {
		env, err := c.variables(nil, app)
		if err != nil || env["PAWL_ADDR"] != in.Listen {
			c.fault("%s: the container %s calls %q, and the sidecar listens at %s: %v", w.name, app.Name, env["PAWL_ADDR"], in.Listen, err)
		}
	}
}
