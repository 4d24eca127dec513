# Sourced by ./freight and ./test (POSIX sh): installs missing packages, configures and builds into build/.
# Knows nothing of what is run afterwards. Everything it says goes to stderr; $root and $me are set by the caller.

build=$root/build
# Clones in other folders share what the compiler cache holds.
export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1

say() { printf '%s: %s\n' "$me" "$*" >&2; }

# The package names of the given sections of tools/packages.txt.
packages_of() {
  section=
  while IFS= read -r line; do
    case $line in
      '' | '#'*) ;;
      '['*']') section=$line ;;
      *) case " $* " in *" $section "*) printf '%s\n' "$line" ;; esac ;;
    esac
  done < "$root/tools/packages.txt"
}

missing_packages() {
  wanted=$(packages_of "$@")
  command -v dpkg-query > /dev/null 2>&1 || return 0 # not a Debian: the configure step will say what it lacks
  # shellcheck disable=SC2086
  have=" $(dpkg-query -W -f '${Package}:${db:Status-Status} ' $wanted 2> /dev/null || true)"
  for p in $wanted; do
    case $have in *" $p:installed "*) ;; *) printf '%s ' "$p" ;; esac
  done
}

# Installs what the sections need. A stamp that equals the list lets later calls skip the question.
ensure_packages() {
  stamp=$build/.packages$(printf '%s' "$@" | tr -d '[]')
  if cmp -s "$root/tools/packages.txt" "$stamp"; then return 0; fi
  missing=$(missing_packages "$@")
  if [ -n "$missing" ]; then
    as_root=
    if [ "$(id -u)" != 0 ]; then
      if [ -t 0 ] && [ -t 2 ]; then as_root=sudo; else as_root='sudo -n'; fi
      if ! command -v sudo > /dev/null 2>&1; then
        say "these Debian packages are missing, and installing them needs root or sudo: $missing"
        exit 1
      fi
    fi
    if ! command -v apt-get > /dev/null 2>&1; then
      say "these packages are missing, and there is no apt-get here: $missing"
      exit 1
    fi
    say "installing with apt: $missing"
    log=$build/packages.log
    apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=600"
    $apt update < /dev/null > "$log" 2>&1 || true # an old list may still serve
    # shellcheck disable=SC2086
    if ! $apt install --no-install-recommends $missing < /dev/null >> "$log" 2>&1; then
      tail -n 20 "$log" >&2
      say "apt could not install (no network?). Missing packages: $missing"
      exit 1
    fi
  fi
  cp "$root/tools/packages.txt" "$stamp"
}

# Runs a command with its output in build/build.log: shown on failure; on a terminal, one rewriting line meanwhile.
logged() {
  if [ -t 2 ] && [ "${TERM:-dumb}" != dumb ] && [ -z "${CI:-}" ]; then
    width=$(($(tput cols 2> /dev/null || stty size < /dev/tty 2> /dev/null | cut -d' ' -f2 || echo 80) - 1))
    {
      status=0
      "$@" 2>&1 || status=$?
      printf '%s' "$status" > "$build/.status"
    } | while IFS= read -r line; do
      printf '%s\n' "$line"
      case $line in
        *'no work to do'* | *'Entering directory'* | *'Re-checking'*) ;;
        *) printf '\r\033[K%.*s' "$width" "$me: $line" >&2 ;;
      esac
    done > "$build/build.log"
    read -r status < "$build/.status" || true
    [ ! -s "$build/build.log" ] || printf '\r\033[K' >&2
    return "$status"
  fi
  "$@" > "$build/build.log" 2>&1
}

configured_with_tests() { grep -q '^FREIGHT_TESTS:BOOL=ON' "$build/CMakeCache.txt" 2> /dev/null; }

# configure_and_build tests|app: `app` builds the command only and keeps whatever configuration there is.
configure_and_build() {
  if [ ! -e "$build/build.ninja" ] || { [ "$1" = tests ] && ! configured_with_tests; }; then
    if [ "$1" = tests ]; then on=ON; else on=OFF; fi
    say "configuring (the first build takes a few minutes)"
    logged cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DFREIGHT_UNITY=ON -DFREIGHT_TESTS=$on \
      -DFREIGHT_BENCH=$on || return 1
  fi
  if [ "$1" = tests ]; then logged ninja -C "$build"; else logged ninja -C "$build" freight_app; fi
}

# prepare tests|app. One caller at a time; the others wait.
prepare() {
  mkdir -p "$build"
  exec 9> "$build/.lock"
  flock 9
  if [ "$1" = tests ]; then sections='[build] [test]'; else sections='[build]'; fi
  # shellcheck disable=SC2086
  ensure_packages $sections
  if ! configure_and_build "$1"; then
    # The stamp may be older than the machine: ask dpkg again before giving up.
    # shellcheck disable=SC2086
    if [ -n "$(missing_packages $sections)" ]; then
      rm -f "$build"/.packages*
      # shellcheck disable=SC2086
      ensure_packages $sections
      configure_and_build "$1" && { exec 9>&-; return 0; }
    fi
    cat "$build/build.log" >&2
    say "the build failed; the output above is in $build/build.log"
    exit 1
  fi
  exec 9>&-
}
