#!/usr/bin/env bash
# Compares MODEL at the commit BASE and in the working tree; the table goes to the job's summary and into the file TABLE. The
# status is that of the conditions in FAIL_ON. Models may be code of the pull request, so this step has no token.
set -euo pipefail
work=$(mktemp -d)
trap 'git worktree remove --force "$work/base" 2> /dev/null || true; rm -rf "$work"' EXIT
summary=${GITHUB_STEP_SUMMARY:-/dev/stdout}
mkdir -p "$(dirname "$TABLE")"
[ -z "${GITHUB_OUTPUT:-}" ] || echo "table=$TABLE" >> "$GITHUB_OUTPUT"
for name in $(compgen -e); do # what the runner hands to steps is not for the model's code
  case $name in GH_TOKEN | GITHUB_* | ACTIONS_*) unset "$name" ;; esac
done

options=() # words on any number of lines, with quotes as in a shell
xargs -r printf '%s\0' <<< "${OPTIONS:-}" > "$work/options"
while IFS= read -r -d '' option; do options+=("$option"); done < "$work/options"
[ -z "${FAIL_ON:-}" ] || conditions=(--fail-on "$FAIL_ON")
name=${MODEL//[\`$'\r\n']/ } # in code, where nothing but a backtick means anything
git worktree add --quiet --detach "$work/base" "$BASE"

status=0
{
  if [ -e "$work/base/${MODEL%%:*}" ]; then
    echo "### What this does to \`$name\`"
    echo
    flopwise compare ${options[@]+"${options[@]}"} --by total -f markdown ${conditions[@]+"${conditions[@]}"} -- "$work/base/$MODEL" "$MODEL"
  else
    echo "### \`$name\` is new"
    echo
    flopwise profile ${options[@]+"${options[@]}"} --by op -f markdown -- "$MODEL"
  fi
} > "$work/table.md" 2> "$work/messages.txt" || status=$?
sed -i "s|$work/base/|base: |g" "$work/table.md" "$work/messages.txt"
[ ! -s "$work/messages.txt" ] || { echo; echo '```'; tr -d '\`' < "$work/messages.txt"; echo '```'; } >> "$work/table.md" # no line ends the code
cp "$work/table.md" "$TABLE"
cat "$work/table.md" >> "$summary"
exit "$status"
