# cmake --install, and the package that find_package(tilec) finds: tilec::tilec is the engine,
# tilec::cache and tilec::kernel_templates are the two floors below it. The installed tree holds no path
# of this machine and can be moved.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tilec)

set_target_properties(tilec_engine PROPERTIES EXPORT_NAME tilec)
set_target_properties(tilec_cache PROPERTIES EXPORT_NAME cache)
set_target_properties(tilec_kernel_templates PROPERTIES EXPORT_NAME kernel_templates)
set_target_properties(tilec_spdlog PROPERTIES EXPORT_NAME spdlog)
install(TARGETS tilec_cache tilec_kernel_templates tilec_engine tilec_spdlog EXPORT tilec_targets)
if(TARGET tilec_command)
  install(TARGETS tilec_command)
endif()
foreach(floor cache kernel_templates engine)
  install(DIRECTORY ${floor}/include/ TYPE INCLUDE FILES_MATCHING PATTERN "*.h")
endforeach()

install(EXPORT tilec_targets NAMESPACE tilec:: DESTINATION ${package_dir})
configure_package_config_file(tools/cmake/tilec-config.cmake.in ${PROJECT_BINARY_DIR}/tilec-config.cmake
                              INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_BINDIR
                              NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tilec-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tilec-config.cmake ${PROJECT_BINARY_DIR}/tilec-config-version.cmake
              tools/cmake/embed_kernels.cmake
        DESTINATION ${package_dir})
