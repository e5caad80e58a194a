#!/usr/bin/env bash
# Compares MODEL at the commit BASE and in the working tree; the table goes to the job's summary and, with COMMENT=true, into
# one comment of pull request NUMBER, which later runs replace. The status is that of the conditions in FAIL_ON.
set -euo pipefail
mark="<!-- flopwise: $MODEL -->"
read -ra options <<< "${OPTIONS:-}"
conditions=()
[ -z "${FAIL_ON:-}" ] || conditions=(--fail-on "$FAIL_ON")
work=$(mktemp -d)
trap 'git worktree remove --force "$work/base" 2> /dev/null || true; rm -rf "$work"' EXIT

git cat-file -e "$BASE^{commit}" 2> /dev/null || git fetch --quiet --depth=1 origin "$BASE"
git worktree add --quiet --detach "$work/base" "$BASE"

status=0
{
  echo "$mark"
  if [ -e "$work/base/${MODEL%%:*}" ]; then
    echo "### What this does to \`$MODEL\`"
    echo
    flopwise compare "$work/base/$MODEL" "$MODEL" "${options[@]}" --by total -f markdown "${conditions[@]}"
  else
    echo "### \`$MODEL\` is new"
    echo
    flopwise profile "$MODEL" "${options[@]}" --by op -f markdown
  fi
} > "$work/table.md" 2> "$work/messages.txt" || status=$?
sed -i "s|$work/base/|base: |g" "$work/table.md" "$work/messages.txt"
[ ! -s "$work/messages.txt" ] || { echo; echo '```'; cat "$work/messages.txt"; echo '```'; } >> "$work/table.md"
cat "$work/table.md" >> "${GITHUB_STEP_SUMMARY:-/dev/stdout}"

if [ "${COMMENT:-}" = true ] && [ -n "${NUMBER:-}" ]; then
  comments="repos/$GITHUB_REPOSITORY/issues/$NUMBER/comments"
  earlier=$(gh api --paginate "$comments" --jq "[.[] | select(.body | startswith(\"$mark\")) | .id] | first // empty")
  if [ -n "$earlier" ]; then
    gh api --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$earlier" -F body=@"$work/table.md" > /dev/null
  else
    gh api --method POST "$comments" -F body=@"$work/table.md" > /dev/null
  fi || echo "::warning::the comment could not be written; the job needs the permission pull-requests: write"
fi
exit "$status"
