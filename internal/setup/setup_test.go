package setup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// TestFiles: what is written and what is left behind, in testdata/files.txt. Each file's text is its path.
func TestFiles(t *testing.T) {
	steps.Run(t, "testdata/files.txt", func(t *testing.T) steps.Calls {
		dir := t.TempDir()
		plainly := func(err error) error {
			if err != nil {
				err = errors.New(strings.ReplaceAll(err.Error(), dir+"/", ""))
			}
			return err
		}
		return steps.Calls{
			"write": func(paths ...string) error {
				var files []File
				for _, path := range paths {
					files = append(files, File{path, path})
				}
				return plainly(Write(filepath.Join(dir, "new"), files))
			},
			"put-link": func(path string) error {
				return errors.Join(os.MkdirAll(filepath.Dir(dir+"/"+path), 0o755), os.Symlink("nowhere", dir+"/"+path))
			},
			"put-file": func(path string) error {
				return errors.Join(os.MkdirAll(filepath.Dir(dir+"/"+path), 0o755), os.WriteFile(dir+"/"+path, nil, 0o600))
			},
			"tree": func() (paths string, err error) {
				err = filepath.WalkDir(dir, func(path string, at os.DirEntry, err error) error {
					if path != dir {
						paths += strings.TrimPrefix(path, dir+"/")
						if text, err := os.ReadFile(path); err == nil {
							paths += fmt.Sprintf(": %q", text)
						}
						paths += "\n"
					}
					return err
				})
				return paths, err
			},
		}
	})
}

// TestAsk: what is asked, and what is set, when lines are typed, in testdata/questions.txt.
func TestAsk(t *testing.T) {
	steps.Run(t, "testdata/questions.txt", func(t *testing.T) steps.Calls {
		var out bytes.Buffer
		of := func(ctx context.Context, in io.Reader, given string) (string, error) {
			out.Reset()
			var got []string
			var questions []Question
			for i, name := range []string{"one", "two"} {
				questions = append(questions, Question{
					Name: name, Text: "The question.", Default: func() string { return "nothing" },
					Answer: []string{"", given}[i],
					Set: func(answer string) error {
						if strings.HasPrefix(answer, "bad") {
							return errors.New("for a reason")
						}
						got = append(got, name+"="+answer)
						return nil
					},
				})
			}
			err := Ask(ctx, in, &out, questions)
			return fmt.Sprintf("%s\nset: %q", out.String(), got), err
		}
		return steps.Calls{
			"ask": func(given, typed string) (string, error) { // lines end with /
				return of(t.Context(), strings.NewReader(strings.ReplaceAll(typed, "/", "\n")), given)
			},
			"interrupt": func() (string, error) {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				r, w := io.Pipe()
				defer w.Close()
				return of(ctx, r, "")
			},
		}
	})
}

// TestAnswers: those that cannot be leave the plan as it was.
func TestAnswers(t *testing.T) {
	of := func(hosts, question, answer string) (string, error) {
		p := &Plan{HTTPPort: Unsaid}
		if hosts != "" {
			if err := p.SetHosts(hosts); err != nil {
				return "", err
			}
		}
		files := func() []File { return p.Files(func([][2]string) string { return "" }, "x") }
		before := files()
		answer = strings.ReplaceAll(answer, `\t`, "\t")
		set := map[string]func(string) error{"hosts": p.SetHosts, "store": p.SetStore, "ports": p.SetPorts, "tls": p.SetTLS,
			"sequences": p.SetSequences}[question]
		if err := set(answer); err != nil {
			if !slices.Equal(before, files()) {
				t.Errorf("%s %q changed the plan", question, answer)
			}
			return "", err
		}
		return p.Form + " " + strings.Join(p.Given(), ", "), nil
	}
	calls := steps.Calls{"of": of, "brief": Brief, "ports": func(url string) string { return fmt.Sprint(portsOf(url)) }}
	steps.Run(t, "testdata/answers.txt", func(*testing.T) steps.Calls { return calls })
}

// TestValuesOfTheChart: passwords stay out of them, and comments say which hosts the URLs in secrets have.
func TestValuesOfTheChart(t *testing.T) {
	p := new(Plan)
	if err := errors.Join(p.SetHosts("helm:3"), p.SetStore("etcd://u@e1,e2 /etc/pool"), p.SetPorts("11212 8081"),
		p.SetSequences("orders rediss://u@r:6380 /etc/sequences"), p.SetTLS("/a.pem /b.pem")); err != nil {
		t.Fatal(err)
	}
	const want = `# Made by katsubushi init, for deploy/helm/katsubushi, whose values.yaml explains all values.
mode: deployment
replicas: 3
ports:
  memcached: 11212
  http: 8081

# Where worker ids are leased.
# FILE has the URL with the password from /etc/pool as USER:PASSWORD@HOST:
# kubectl create secret generic katsubushi-store --from-file=url=FILE
store:
  secret: {name: katsubushi-store, key: url} # e1,e2
  ports: [2379] # which the NetworkPolicy opens

# Where sequences are recorded.
# FILE has the URL with the password from /etc/sequences as USER:PASSWORD@HOST:
# kubectl create secret generic katsubushi-counters --from-file=url=FILE
counters:
  secret: {name: katsubushi-counters, key: url} # r:6380
  ports: [6379, 6380, 26379] # which the NetworkPolicy opens

names: |
  orders sequence

# kubectl create secret tls katsubushi-tls --cert=/a.pem --key=/b.pem
tls:
  secret: katsubushi-tls
`
	if got := p.Files(nil, "")[0].Text; got != want {
		t.Errorf("%s", got)
	}
}
