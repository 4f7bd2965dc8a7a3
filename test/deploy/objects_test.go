package deploy

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// overlays is the directory of the forms in which Pawl is deployed.
const overlays = root + "/deploy/kubernetes/overlays"

// workload is an object that makes pods.
type workload struct {
	name   string
	labels labels.Set
	pod    corev1.PodSpec
	meta   metav1.ObjectMeta
	// set is nil for a Job.
	set *appsv1.StatefulSet
}

// containers are the init containers and the containers of the pod.
func (w workload) containers() []corev1.Container {
	return append(append([]corev1.Container{}, w.pod.InitContainers...), w.pod.Containers...)
}

// objects are the objects of one overlay, by kind.
type objects struct {
	workloads  []workload
	services   []*corev1.Service
	configMaps map[string]*corev1.ConfigMap
	accounts   map[string]bool
	policies   []*networkingv1.NetworkPolicy
	budgets    []*policyv1.PodDisruptionBudget
}

// render returns the YAML of an overlay, as `kubectl kustomize` prints it.
func render(t *testing.T, overlay string) []byte {
	t.Helper()
	options := krusty.MakeDefaultOptions()
	rendered, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), filepath.Join(overlays, overlay))
	if err != nil {
		t.Fatal(err)
	}
	text, err := rendered.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// decoder decodes objects of Kubernetes strictly: an unknown field, a field twice and a value of another type
// are errors.
func decoder() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}

// decode decodes the objects of a rendered overlay.
func decode(text []byte) (objects, error) {
	all, from := objects{configMaps: map[string]*corev1.ConfigMap{}, accounts: map[string]bool{}}, decoder()
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		object, kind, err := from.Decode(document, nil, nil)
		if err != nil {
			return all, err
		}
		switch o := object.(type) {
		case *appsv1.StatefulSet:
			all.workloads = append(all.workloads, workload{"StatefulSet " + o.Name, o.Spec.Template.Labels, o.Spec.Template.Spec, o.Spec.Template.ObjectMeta, o})
		case *batchv1.Job:
			all.workloads = append(all.workloads, workload{"Job " + o.Name, o.Spec.Template.Labels, o.Spec.Template.Spec, o.Spec.Template.ObjectMeta, nil})
		case *corev1.Service:
			all.services = append(all.services, o)
		case *corev1.ConfigMap:
			all.configMaps[o.Name] = o
		case *corev1.ServiceAccount:
			all.accounts[o.Name] = true
		case *networkingv1.NetworkPolicy:
			all.policies = append(all.policies, o)
		case *policyv1.PodDisruptionBudget:
			all.budgets = append(all.budgets, o)
		default:
			return all, fmt.Errorf("no check knows the kind %v", kind)
		}
	}
	return all, nil
}

// selected are the workloads whose pods a selector selects. An empty selector selects all.
func (o objects) selected(selector *metav1.LabelSelector) ([]workload, error) {
	matches, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, err
	}
	var found []workload
	for _, w := range o.workloads {
		if matches.Matches(w.labels) {
			found = append(found, w)
		}
	}
	return found, nil
}

// variables is the environment of a container over that of its image, with the references to other variables
// expanded. A reference to a field of the pod becomes the field's name.
func (o objects) variables(image map[string]string, c corev1.Container) (map[string]string, error) {
	env := map[string]string{}
	maps.Copy(env, image)
	for _, from := range c.EnvFrom {
		if from.ConfigMapRef == nil {
			return nil, fmt.Errorf("no check knows %v", from)
		}
		source := o.configMaps[from.ConfigMapRef.Name]
		if source == nil {
			return nil, fmt.Errorf("there is no ConfigMap %s", from.ConfigMapRef.Name)
		}
		maps.Copy(env, source.Data)
	}
	for _, one := range c.Env {
		switch from := one.ValueFrom; {
		case from == nil:
			env[one.Name] = expand(one.Value, env)
		case from.FieldRef != nil:
			env[one.Name] = from.FieldRef.FieldPath
		default:
			return nil, fmt.Errorf("no check knows %v", from)
		}
	}
	return env, nil
}
