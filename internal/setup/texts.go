package setup

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
)

// The names of the files, below the directory that they are written to.
const (
	configFile  = "katsubushi.conf"
	dropInFile  = "katsubushi.service.d/init.conf"
	composeFile = "compose.yaml"
	valuesFile  = "values.yaml"
)

// ConfigOf returns where the -config file of a daemon is written.
func (p *Plan) ConfigOf(d Daemon) string {
	if p.Shared() {
		return configFile
	}
	return path.Join(d.Name, configFile)
}

// Files returns what the plan comes to. config writes the -config file of a daemon, and image is the tag of the image.
// The chart's values say everything by themselves, so beside them there is no -config file.
func (p *Plan) Files(config func(settings [][2]string) string, image string) (files []File) {
	if p.Form == Helm {
		return []File{{valuesFile, p.values()}}
	}
	for _, d := range p.Daemons {
		files = append(files, File{p.ConfigOf(d), config(p.Settings(d))})
		if p.Shared() {
			break
		}
	}
	switch p.Form {
	case Systemd:
		files = append(files, File{dropInFile, p.dropIn()})
	case Compose:
		files = append(files, File{composeFile, p.compose(image)})
	}
	return files
}

// dropIn returns the drop-in of katsubushi.service.
func (p *Plan) dropIn() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Made by katsubushi init, for /etc/systemd/system/katsubushi.service.d/. The settings are in %[1]s/%[2]s.
[Service]
# What stands in /etc/default/katsubushi beats them. The file may be missing.
EnvironmentFile=
EnvironmentFile=-/etc/default/katsubushi
Environment=KATSUBUSHI_CONFIG=%[1]s/%[2]s
`, ConfigDir, configFile)
	if len(p.secrets()) > 0 {
		b.WriteString("# Files of root's with mode 0600: systemd gives the daemon a copy of each when the service starts.\n")
	}
	for _, s := range p.secrets() {
		fmt.Fprintf(&b, "LoadCredential=%[1]s:%[2]s\nEnvironment=KATSUBUSHI_%[3]s=%%d/%[1]s\n", s[0], s[1],
			strings.ToUpper(strings.ReplaceAll(s[0], "-", "_")))
	}
	return b.String()
}

// quoted writes a text as JSON does, which YAML reads as well.
func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// compose returns the compose file.
func (p *Plan) compose(image string) string {
	var b strings.Builder
	image = quoted("katsubushi:" + image)
	fmt.Fprintf(&b, `# Made by katsubushi init. The settings are in the -config files beside this one; `+"`make image`"+` builds the image.
name: katsubushi

x-katsubushi: &katsubushi
  image: %s
  environment: {KATSUBUSHI_CONFIG: %s/%s} # the health check reads it, too
`, image, ConfigDir, configFile)
	if p.Store.URL != "" {
		b.WriteString("  depends_on:\n    pool: {condition: service_completed_successfully}\n")
	}
	b.WriteString(`  restart: unless-stopped
  stop_grace_period: 15s # more than -shutdown-delay and -drain-timeout together
  healthcheck: # healthy means here that ids are issued; nothing restarts a container that is not
    test: [CMD, /katsubushi, healthcheck, -ready]
    interval: 5s
    timeout: 4s
    retries: 3
    start_period: 90s
  read_only: true
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]

services:
`)
	if p.Store.URL != "" {
		fmt.Fprintf(&b, `  # Makes the pool of worker ids where there is none. The first are granted after a minute: a pool may have been lost.
  pool:
    image: %s
    command: [lease, init, -config=%s/%s]
    restart: on-failure
%s
`, image, ConfigDir, configFile, p.mounts(p.Daemons[0], false))
	}
	var volumes []string
	for i, d := range p.Daemons {
		fmt.Fprintf(&b, "  %s:\n    <<: *katsubushi\n    ports: [\"%d:%d\"]\n%s", d.Name, p.Port+i, p.Port,
			p.mounts(d, p.keepsFiles()))
		if p.keepsFiles() {
			volumes = append(volumes, "  "+d.Name+": {}\n")
		}
	}
	if len(volumes) > 0 {
		b.WriteString("\n# What was issued is recorded in these: keep them.\nvolumes:\n" + strings.Join(volumes, ""))
	}
	return b.String()
}

// mounts returns the volumes of a container.
func (p *Plan) mounts(d Daemon, state bool) string {
	var b strings.Builder
	b.WriteString("    volumes:\n")
	file := func(from, to string) {
		fmt.Fprintf(&b, "      - {type: bind, source: %s, target: %s, read_only: true}\n", quoted(from), quoted(to))
	}
	file("./"+p.ConfigOf(d), ConfigDir+"/"+configFile)
	if len(p.secrets()) > 0 {
		b.WriteString("      # user 65532 must own these, with mode 0600 or less\n")
	}
	for _, f := range p.Secrets() {
		file(f, f)
	}
	if state {
		fmt.Fprintf(&b, "      - %s:/var/lib/katsubushi\n", d.Name)
	}
	return b.String()
}

// Names of the secrets that values name.
const (
	storeSecret   = "katsubushi-store"
	countersInKey = "katsubushi-counters"
	tlsSecret     = "katsubushi-tls"
)

// values returns values of the Helm chart.
func (p *Plan) values() string {
	var b strings.Builder
	mode := "statefulset"
	if p.Store.URL != "" {
		mode = "deployment"
	}
	fmt.Fprintf(&b, `# Made by katsubushi init, for deploy/helm/katsubushi, whose values.yaml explains all values.
mode: %s
replicas: %d
ports:
  memcached: %d
  http: %d
`, mode, len(p.Daemons), p.Port, p.HTTPPort)
	if p.Store.URL != "" {
		b.WriteString("\n# Where worker ids are leased.\n" + inValues("store", storeSecret, p.Store))
	}
	if len(p.Sequences) > 0 {
		if p.Counters.URL != "" {
			b.WriteString("\n# Where sequences are recorded.\n" + inValues("counters", countersInKey, p.Counters))
		}
		b.WriteString("\nnames: |\n")
		for _, name := range p.Sequences {
			fmt.Fprintf(&b, "  %s sequence\n", name)
		}
	}
	if p.Cert != "" {
		fmt.Fprintf(&b, "\n# kubectl create secret tls %[1]s --cert=%s --key=%s\ntls:\n  secret: %[1]s\n",
			tlsSecret, p.Cert, p.Key)
	}
	return b.String()
}

// inValues returns the values of a store: its URL, or if that has a password, the name of a secret.
func inValues(key, secret string, at Place) string {
	text := fmt.Sprintf("%s:\n  url: %s\n", key, quoted(at.URL))
	if at.PasswordFile != "" {
		u, _ := endpoint.Split(at.URL)
		text = fmt.Sprintf("# FILE has the URL with the password from %s as USER:PASSWORD@HOST:\n"+
			"# kubectl create secret generic %s --from-file=url=FILE\n%s:\n  secret: {name: %[2]s, key: url} # %[4]s\n",
			at.PasswordFile, secret, key, strings.Join(u.Hosts, ","))
	}
	return text + "  ports: [" + strings.Join(portsOf(at.URL), ", ") + "] # which the NetworkPolicy opens\n"
}

// portsOf returns the ports of a store, as in its URL. Sentinels and clusters lead to servers at Redis's own ports.
func portsOf(text string) (ports []string) {
	u, err := endpoint.Split(text)
	if err != nil {
		return nil
	}
	usual := map[string]int{"redis": 6379, "zookeeper": 2181, "etcd": 2379,
		"postgres": 5432, "postgresql": 5432, "mysql": 3306}
	scheme, _, _ := strings.Cut(u.Scheme, "+")
	port := usual[scheme]
	if port == 0 {
		port = usual[strings.TrimSuffix(scheme, "s")]
	}
	if strings.HasPrefix(scheme, "redis") {
		ports = []string{"6379", "6380", "26379"}
	}
	if port == 0 {
		port = usual["redis"]
	}
	list, _ := u.Addresses(port)
	for _, a := range list {
		if own := a[strings.LastIndexByte(a, ':')+1:]; !slices.Contains(ports, own) {
			ports = append(ports, own)
		}
	}
	return ports
}

// Next returns the two commands that follow, for a shell in this directory: a sentence about each, and the command.
func (p *Plan) Next(dir string) [2][2]string {
	in := func(file string) string { return shell(path.Join(dir, file)) }
	first := [2]string{"Check the settings:", "katsubushi check-config -config " + in(p.ConfigOf(p.Daemons[0]))}
	if p.Store.URL != "" {
		first = [2]string{"Make the pool of worker ids, once; -how new is only for a first pool, leave it out if there " +
			"may have been one:", "katsubushi lease init -how new -config " + in(configFile)}
	}
	switch p.Form {
	case Compose:
		return [2][2]string{{"Start the containers:", "docker compose -f " + in(composeFile) + " up -d"},
			{"Wait until they are healthy:", "docker compose -f " + in(composeFile) + " ps"}}
	case Helm:
		start := [2]string{"Start the pods, in a checkout:",
			"helm upgrade --install katsubushi deploy/helm/katsubushi -f " + in(valuesFile)}
		if p.Store.URL == "" {
			return [2][2]string{start, {"Wait until they are ready:", "kubectl rollout status statefulset/katsubushi"}}
		}
		init := "katsubushi lease init -how new -store " + shell(p.Store.URL)
		if p.Store.PasswordFile != "" {
			init += " -store-password-file " + p.Store.PasswordFile
		}
		return [2][2]string{{first[0], init}, start}
	case Plain:
		start := [2]string{"Start the daemon:", "katsubushi -config " + in(p.ConfigOf(p.Daemons[0]))}
		if len(p.Daemons) > 1 {
			start = [2]string{"Start each daemon on its host:", "katsubushi -config " + configFile}
			if !p.Shared() {
				start[0] = "Start each daemon on its host, with the file from the folder of the host's name:"
			}
		}
		return [2][2]string{first, start}
	}
	return [2][2]string{first, p.installs(in)}
}

// installs returns how a host gets the files of its unit, and starts it.
func (p *Plan) installs(in func(string) string) [2]string {
	said, config := "Put the files into their places, and start the service; its unit is there already:",
		in(p.ConfigOf(p.Daemons[0]))
	if len(p.Daemons) > 1 {
		said = "The same on each of the " + strconv.Itoa(len(p.Daemons)) + " hosts: put the files into their places, and " +
			"start the service; its unit is there already:"
		if !p.Shared() {
			said = strings.Replace(said, "The same on", "On", 1)
			config = in("HOST/" + configFile)
		}
	}
	return [2]string{said, "sudo install -D -m 644 -t " + ConfigDir + " " + config +
		" && sudo install -D -m 644 -t /etc/systemd/system/katsubushi.service.d " + in(dropInFile) +
		" && sudo systemctl daemon-reload && sudo systemctl enable --now katsubushi"}
}

// shell quotes a word for a shell, if that is needed.
func shell(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/:.,_-+@=%", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
