# Tests that are not test programs: the rules of the sources, the installed package, the launcher, the sanitizers.
# Nested builds find most objects in ccache and use every core, hence PROCESSORS.
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)

find_program(PYTHON3 python3 REQUIRED)
find_program(CLANG_FORMAT clang-format REQUIRED)
find_program(CLANG_TIDY clang-tidy REQUIRED)

add_test(NAME "check: structure" COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tools/check_structure)
add_test(NAME "check: structure finds breaches" COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/check_structure_test.py)
add_test(NAME "check: format" COMMAND ${CMAKE_SOURCE_DIR}/tools/check_format.sh)
add_test(NAME "check: tidy" COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tools/check_tidy ${CMAKE_BINARY_DIR})
set_tests_properties("check: tidy" PROPERTIES PROCESSORS ${cores} TIMEOUT 1800)

add_test(NAME "check: real data" COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/unpack_data.sh ${CMAKE_BINARY_DIR})
set_tests_properties("check: real data" PROPERTIES FIXTURES_SETUP real_data SKIP_RETURN_CODE 77 TIMEOUT 600)

# Tests against what others make of our files and our server wait for it (peer_python in tests/support/python.h).
add_test(NAME "check: python packages" COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/python_environment.sh ${CMAKE_BINARY_DIR})
set_tests_properties("check: python packages" PROPERTIES FIXTURES_SETUP python_packages FIXTURES_REQUIRED real_data
                     SKIP_RETURN_CODE 77 TIMEOUT 900)

add_test(NAME "check: Python package" COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/python_package.sh ${CMAKE_BINARY_DIR})
set_tests_properties("check: Python package" PROPERTIES FIXTURES_REQUIRED python_packages FIXTURES_SETUP python_package
                     PROCESSORS ${cores} SKIP_RETURN_CODE 77 TIMEOUT 900)
# Each looks whether the package is built, which two at once must not do.
add_test(NAME "check: array API suite" COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/python_package.sh ${CMAKE_BINARY_DIR} suite)
set_tests_properties("check: array API suite" PROPERTIES FIXTURES_REQUIRED "python_packages;python_package"
                     RESOURCE_LOCK python_package SKIP_RETURN_CODE 77 TIMEOUT 1200)
add_test(NAME "check: Python values" COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/python_package.sh ${CMAKE_BINARY_DIR} values)
set_tests_properties("check: Python values" PROPERTIES FIXTURES_REQUIRED "python_packages;python_package"
                     RESOURCE_LOCK python_package SKIP_RETURN_CODE 77 TIMEOUT 1200)
add_test(NAME "check: wheel" COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/wheel_test.sh ${CMAKE_BINARY_DIR})
set_tests_properties("check: wheel" PROPERTIES FIXTURES_REQUIRED "python_packages;python_package" PROCESSORS ${cores}
                     SKIP_RETURN_CODE 77 TIMEOUT 1200)
add_test(NAME "check: Debian packages" COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/debian_packages_test.sh ${CMAKE_BINARY_DIR})
set_tests_properties("check: Debian packages" PROPERTIES TIMEOUT 600)
add_test(NAME "check: container image" COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/container_test.sh ${CMAKE_BINARY_DIR})
set_tests_properties("check: container image" PROPERTIES PROCESSORS ${cores} TIMEOUT 3000 SKIP_RETURN_CODE 77)
add_test(NAME "check: installed package" COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/installed_test.sh ${CMAKE_BINARY_DIR})
set_tests_properties("check: installed package" PROPERTIES TIMEOUT 600)
add_test(NAME "check: planned memory"
         COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/planned_memory.py ${CMAKE_BINARY_DIR})
set_tests_properties("check: planned memory" PROPERTIES TIMEOUT 7200)
add_test(NAME "check: sweeps" COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/sweeps.py ${CMAKE_BINARY_DIR})
set_tests_properties("check: sweeps" PROPERTIES TIMEOUT 7200)
add_test(NAME "check: flags on several devices" COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/device_flags.py ${CMAKE_BINARY_DIR})
set_tests_properties("check: flags on several devices" PROPERTIES PROCESSORS 2 TIMEOUT 600)
# The first Python of the search path runs it, which need not have the packages.
add_test(NAME "check: tables beside scikit-learn and ONNX Runtime"
         COMMAND /usr/bin/env python3 ${CMAKE_CURRENT_SOURCE_DIR}/tables_peers.py ${CMAKE_BINARY_DIR})
set_tests_properties("check: tables beside scikit-learn and ONNX Runtime"
                     PROPERTIES FIXTURES_REQUIRED real_data SKIP_RETURN_CODE 77 TIMEOUT 1800)
# As above; the seed is fixed, and FREIGHT_LONG=1 (./test --long) draws 1,000 tables in place of 24.
add_test(NAME "check: random tables beside scikit-learn and XGBoost"
         COMMAND /usr/bin/env python3 ${CMAKE_CURRENT_SOURCE_DIR}/tables_random_peers.py ${CMAKE_BINARY_DIR})
set_tests_properties("check: random tables beside scikit-learn and XGBoost"
                     PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1800)
# The same first Python, which need not have pandas.
add_test(NAME "check: tables as pandas reads them"
         COMMAND /usr/bin/env python3 ${CMAKE_CURRENT_SOURCE_DIR}/tables_readers_peers.py ${CMAKE_BINARY_DIR} --tables 40)
set_tests_properties("check: tables as pandas reads them" PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
add_test(NAME "check: commands in documents" COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/docs_commands.py ${CMAKE_BINARY_DIR})
# The longest test begins first, so that no processor waits for it at the end.
set_tests_properties("check: commands in documents" PROPERTIES TIMEOUT 900 COST 1000)
add_test(NAME "check: C++ in documents"
         COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/docs_cpp.py ${CMAKE_CXX_COMPILER})
add_test(NAME "check: programs of users"
         COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/user_programs.py ${CMAKE_CXX_COMPILER})
add_test(NAME "check: API reference" COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/api_reference_test.py)
set_tests_properties("check: API reference" PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120)
add_test(NAME "check: documents as a site" COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/docs_site.py ${CMAKE_BINARY_DIR})
set_tests_properties("check: documents as a site" PROPERTIES FIXTURES_REQUIRED python_packages SKIP_RETURN_CODE 77 TIMEOUT 120)
add_test(NAME "check: man page" COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/man_page_test.py ${CMAKE_BINARY_DIR})
add_test(NAME "check: length of documents" COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tools/check_docs)
add_test(NAME "check: words" COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tools/check_words)
add_test(NAME "check: documents finds faults" COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/docs_test.py)
add_test(NAME "check: report of tests" COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/test_report_test.py)
add_test(NAME "check: guard of step times" COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/guard_test.py)
add_test(NAME "check: sets of tests" COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tools/list_tests ${CMAKE_BINARY_DIR})
add_test(NAME "check: gpu_check" COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/gpu_check_test.py)
# Both halves in small on OpenCL, and the first on the fake CUDA driver, which is far too slow to be measured.
function(gpu_check half device name)
  add_test(NAME "check: gpu_check ${half} on ${name}"
           COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/gpu_check_test.py ${CMAKE_BINARY_DIR} ${device} ${half})
  set_tests_properties("check: gpu_check ${half} on ${name}" PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
endfunction()
gpu_check(correctness opencl:0 OpenCL)
gpu_check(speed opencl:0 OpenCL)
gpu_check(correctness cuda:0 "the fake CUDA driver")
set_tests_properties("check: gpu_check correctness on the fake CUDA driver"
                     PROPERTIES ENVIRONMENT "FREIGHT_CUDA_LIBS=${CMAKE_BINARY_DIR}/tests/cuda/fake_cuda;FAKE_NCCL_VERSION=23001")
# What Freight declares of NVIDIA's interfaces, where there is a toolkit to compare it with.
foreach(interface driver nvrtc cublas cublaslt cudnn cusolver nccl)
  add_test(NAME "check: interface of ${interface}"
           COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/abi_test.py ${interface} ${CMAKE_CXX_COMPILER})
  set_tests_properties("check: interface of ${interface}" PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120)
endforeach()
add_test(NAME "check: bundle" COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/bundle_test.sh ${CMAKE_BINARY_DIR})
set_tests_properties("check: bundle" PROPERTIES TIMEOUT 600)
add_test(NAME "check: launcher" COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/launcher_test.sh ${CMAKE_BINARY_DIR})
set_tests_properties("check: launcher" PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77)
add_test(NAME "check: restarts" COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/restarts.py ${CMAKE_BINARY_DIR})
set_tests_properties("check: restarts" PROPERTIES PROCESSORS 2 TIMEOUT 600)
add_test(NAME "check: Slurm" COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/slurm_test.sh ${CMAKE_BINARY_DIR})
set_tests_properties("check: Slurm" PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77)

# sanitize(SANITIZERS ROOMS TEST_ROOMS FILTER): a nested build of some rooms (empty: all), and the tests of some folders
# whose name matches FILTER (empty: all).
function(sanitize name sanitizers rooms test_rooms filter)
  add_test(NAME "sanitize: ${name}"
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/sanitize_test.sh ${CMAKE_BINARY_DIR}/sanitize-${name} ${sanitizers} "${rooms}"
                   "${test_rooms}" "${filter}")
  set_tests_properties("sanitize: ${name}" PROPERTIES PROCESSORS ${cores} TIMEOUT 3000)
endfunction()
sanitize(address address,undefined "" "base;ir;passes;trace;run;io;data;models;comm;fuzz" "")
# libgomp is not built for the thread sanitizer, so what is run under it has threads of its own and one of OpenMP's: the
# loader, and programs that call nets from many threads.
sanitize(thread thread "base;io;data;ir;passes;run;backend;trace;ops;nn;optim" "data;trace" "^(data:.*Loader|trace:.*Threads)")

add_test(NAME "sanitize: python" COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/python_sanitize_test.sh ${CMAKE_BINARY_DIR} address,undefined)
set_tests_properties("sanitize: python" PROPERTIES PROCESSORS ${cores} TIMEOUT 3000 SKIP_RETURN_CODE 77)

# What `./test` leaves to `./test --full`: nested builds, clang-tidy over everything, whole sweeps, other programs. The rest
# of the checks runs in both.
get_property(checks DIRECTORY PROPERTY TESTS)
list(FILTER checks INCLUDE REGEX "^(check|sanitize): ")
set(full_checks "^(sanitize: .*|check: (tidy|array API suite|Python values|wheel|Debian packages|container image|installed package|planned memory|sweeps|tables beside .*|programs of users|bundle|Slurm|restarts|gpu_check .*))$")
foreach(check ${checks})
  if(check MATCHES "${full_checks}")
    set_property(TEST "${check}" APPEND PROPERTY LABELS full)
  else()
    set_property(TEST "${check}" APPEND PROPERTY LABELS fast)
  endif()
endforeach()
