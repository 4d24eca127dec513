// Folders of Python packages (site-packages), where pip puts libraries that are loaded at run time: NVIDIA's, XGBoost,
// OpenBLAS. Folders may be patterns of glob. Nothing is loaded here: see library.h.
#pragma once
#include <string>
#include <vector>

namespace freight {

// The interpreter that runs this process has its packages in these folders. They are searched first.
void set_python_packages(std::vector<std::string> folders);
// The folders of the interpreter (set_python_packages, or the package that this library is a file of), and of the
// active environment.
std::vector<std::string> active_python_packages();
// The folders of the user and of the system.
std::vector<std::string> other_python_packages();
// The files FOLDER/BELOW, folder by folder, and the newest version by name first. Both may be patterns.
std::vector<std::string> files_in(const std::vector<std::string>& folders, const std::string& below);

}  // namespace freight
