# `cmake --install build/release --prefix DIR`: the program, its manual, completion for shells, the model that comes with the
# clone, and units for systemd (not started).
include(GNUInstallDirs)

install(TARGETS butterfly RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${PROJECT_SOURCE_DIR}/models/caterpillar.gguf DESTINATION ${CMAKE_INSTALL_DATADIR}/butterfly)
install(FILES ${PROJECT_SOURCE_DIR}/packaging/systemd/butterfly.service ${PROJECT_SOURCE_DIR}/packaging/systemd/butterfly-node.service
        DESTINATION lib/systemd/system)
install(FILES ${PROJECT_SOURCE_DIR}/packaging/systemd/butterfly.sysusers DESTINATION lib/sysusers.d RENAME butterfly.conf)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Written by the program itself, from its table of commands.
if(NOT CMAKE_CROSSCOMPILING)
  set(folder ${CMAKE_BINARY_DIR}/manual)
  install(CODE "
    file(MAKE_DIRECTORY \"${folder}\")
    execute_process(COMMAND \"$<TARGET_FILE:butterfly>\" man-pages \"${folder}\" COMMAND_ERROR_IS_FATAL ANY)
    foreach(shell bash zsh fish)
      execute_process(COMMAND \"$<TARGET_FILE:butterfly>\" completion \${shell} OUTPUT_FILE \"${folder}/completion.\${shell}\" COMMAND_ERROR_IS_FATAL ANY)
    endforeach()")
  install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
  install(FILES ${folder}/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME butterfly)
  install(FILES ${folder}/completion.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _butterfly)
  install(FILES ${folder}/completion.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME butterfly.fish)
endif()
