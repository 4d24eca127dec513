#!/bin/sh
# Says what the tests printed that failed in the last run of ctest, the last 200 lines of each. Usage: failed_tests.sh
# BUILD_DIR. Behind a run, where those look who see thousands of lines or the last of them alone.
set -eu
log=$1/Testing/Temporary
[ -s "$log/LastTestsFailed.log" ] && [ -s "$log/LastTest.log" ] || exit 0
awk -F: '
  function tell(  i) { for (i = count > 200 ? count - 199 : 1; inside && i <= count; ++i) print line[i]; count = 0 }
  FILENAME ~ /Failed/ { failed[$1]; next }
  /^[0-9]+\/[0-9]+ Testing: / && !nested { tell(); split($0, part, "/"); inside = part[1] in failed }
  /^Output:$/ { nested = 1 }
  /^<end of output>$/ { nested = 0 }
  inside { line[++count] = $0 }
  END { tell() }' "$log/LastTestsFailed.log" "$log/LastTest.log"
