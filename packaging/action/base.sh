#!/usr/bin/env bash
# Makes the commit BASE be there. This step has the token, for private repositories, and runs before any code of the pull request.
set -euo pipefail
git cat-file -e "$BASE^{commit}" 2> /dev/null && exit
fetch=(fetch --quiet --depth=1 --no-recurse-submodules origin "$BASE")
git "${fetch[@]}" 2> /dev/null && exit
login=$(printf 'x-access-token:%s' "$GH_TOKEN" | base64 | tr -d '\n')
git -c "http.$GITHUB_SERVER_URL/.extraheader=AUTHORIZATION: basic $login" "${fetch[@]}"
