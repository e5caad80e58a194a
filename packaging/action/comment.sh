#!/usr/bin/env bash
# Writes the file TABLE into one comment of pull request NUMBER, which later runs replace. This step has the token, and runs neither
# flopwise nor code of the pull request.
set -euo pipefail
[ -f "$TABLE" ] && [ ! -L "$TABLE" ] || { echo "::warning::there is no table to comment"; exit; }
body=$(mktemp)
trap 'rm -f "$body"' EXIT
mark="<!-- flopwise: ${MODEL//[^[:alnum:]._\/:@+ -]/_} -->" # nothing in it means anything to a comment or to jq
{ echo "$mark"; head -c 60000 "$TABLE"; } > "$body" # a comment has at most 65,536 characters
comments="repos/$GITHUB_REPOSITORY/issues/$NUMBER/comments"
earlier=$(gh api --paginate "$comments" --jq "[.[] | select(.body | startswith(\"$mark\")) | .id] | first // empty" | head -n 1)
if [ -n "$earlier" ]; then
  gh api --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$earlier" -F body=@"$body" > /dev/null
else
  gh api --method POST "$comments" -F body=@"$body" > /dev/null
fi || echo "::warning::the comment could not be written; the job needs the permission pull-requests: write"
